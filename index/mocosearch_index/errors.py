"""The errors of the ground floor, and the base class of every error that is shown to a person as one line."""

REBUILD = "restore the index from a backup, or delete its folder and index the photos again."  # common remedies
VERIFY = "run `mocosearch verify`, which mends what it can."


class MocosearchError(Exception):
    """An expected failure. Its text is one line that names the remedy; `exit_code` is the exit status."""

    exit_code = 1


class NotAnIndex(MocosearchError):
    """The folder holds no index."""


class NewerFormat(MocosearchError):
    """The index was written by a newer version of mocosearch."""


class DamagedIndex(MocosearchError):
    """Stored data is missing, too short or fails its checksum."""


class NewGeneration(Exception):
    """The index was compacted after its files were opened: open them again. Never leaves the ImageIndex."""


class IndexExists(MocosearchError):
    """The folder already holds an index, or something else with which one must not mix."""


class NotWritable(MocosearchError):
    """The folder cannot be written to: read-only, or not permitted."""


class NotReadable(MocosearchError):
    """A file of the index may not be read."""


class StorageFailed(MocosearchError):
    """The disk or network drive reported an error while reading or writing."""


class IndexLocked(MocosearchError):
    """Another process is writing to the index."""


class DiskFull(MocosearchError):
    """The disk that holds the index has no space left; all that was committed is kept."""


class UnknownPhoto(MocosearchError):
    """No photo with this id is in the index."""


class EncoderMismatch(MocosearchError):
    """The encoder is not the one whose vectors the index holds."""

    exit_code = 4
