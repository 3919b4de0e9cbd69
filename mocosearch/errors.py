"""Typed errors of the middle floor; the command line prints each as one line and exits with its `exit_code`."""

from mocosearch_index.errors import MocosearchError


class NoPhotos(MocosearchError):
    """The folder is missing, empty, or holds too few photos that can be read."""


class BadRecipe(MocosearchError):
    """A recipe, or a `--set key=value`, that does not say something sensible."""


class BadCheckpoint(MocosearchError):
    """A checkpoint or encoder file that is missing, damaged, or of a layout that is not known."""


class NoEncoder(MocosearchError):
    """No encoder was named and none is recorded."""


class NoLibrary(MocosearchError):
    """The folder, and the folders above it, hold no index."""


class DownloadFailed(MocosearchError):
    """A named download could not be fetched or is not what its publisher states."""


class TrainingStopped(MocosearchError):
    """Training cannot go on: a non-finite loss, or data that vanished."""
