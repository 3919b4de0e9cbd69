"""Typed errors of the middle floor; the command line prints each as one line and exits with its `exit_code`."""

from mocosearch_index.errors import MocosearchError


class NoPhotos(MocosearchError):
    """The folder is missing, empty, or holds too few photos that can be read."""


class BadRecipe(MocosearchError):
    """A recipe, or a `--set key=value`, that does not say something sensible."""


class BadCheckpoint(MocosearchError):
    """A checkpoint or encoder file that is missing, damaged, or of a layout that is not known."""


class DamagedPack(MocosearchError):
    """The cache of downsized photos is damaged while others use it; it can be deleted."""


class NoEncoder(MocosearchError):
    """No encoder was named and none is recorded."""


class NoLibrary(MocosearchError):
    """The folder, and the folders above it, hold no index."""


class DownloadFailed(MocosearchError):
    """A named download could not be fetched or is not what its publisher states."""


class TrainingStopped(MocosearchError):
    """Training cannot go on: a non-finite loss, or data that vanished."""


class RunGoingOn(MocosearchError):
    """Another process trains in the run's folder, or began another run there."""


class LoaderFailed(MocosearchError):
    """A process that prepares batches ended; the checkpoint is intact."""


class DecodersFailed(MocosearchError):
    """A process that decodes photos could not be started."""


class OutOfMemory(MocosearchError):
    """A single picture, or a batch of a training, does not go through the network in the memory that there is."""


class NotLabelled(MocosearchError):
    """The folder does not sort its photos into class folders, or not into enough of them."""


class BadLabels(MocosearchError):
    """A CSV file of classes or pairs that does not say what it should."""


class Unscorable(MocosearchError):
    """Vectors of which no figure can be made: not finite, or too few photos or classes."""


class NotFrozen(MocosearchError):
    """A network that should stay as it is changed while it was evaluated."""


class BadDevices(MocosearchError):
    """More devices than there are, or more than the collection can be spread over."""


class RankFailed(MocosearchError):
    """One of several training processes failed, and the others were ended."""


class Interrupted(MocosearchError):
    """A person or the system asked to stop; what was done is saved and the text says how to go on."""

    exit_code = 130


class CannotServe(MocosearchError):
    """The page cannot be served at this address: the port is taken, or other machines could reach it."""


class PhotoGone(MocosearchError):
    """The file of a photo of the library is not there any more."""


class LibraryChanged(MocosearchError):
    """Another process changed the library in the middle of what needs it to stay the same."""


class BadSweep(MocosearchError):
    """The folder of an ablation is damaged, or holds another one."""


class MissingExtra(MocosearchError):
    """A flag asks for a package that is not among those always installed."""


class CannotExport(MocosearchError):
    """A format has no place for this encoder, or the file to be written is in the way."""


class CannotReport(MocosearchError):
    """The report of an evaluation has no place, or another file is at it."""


class BadPicture(MocosearchError):
    """The picture to search with cannot be decoded."""


class BadCrop(MocosearchError):
    """The part of a picture to search with is empty or lies outside of it."""


class BadSettings(MocosearchError):
    """A choice about a library that its vectors do not allow."""


class BadPattern(MocosearchError):
    """A pattern of files to leave out or to take in that means nothing."""
