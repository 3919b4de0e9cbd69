"""Which photo of a group is worth keeping, and why."""

from mocosearch_index.records import Photo

Order = tuple[int, int, tuple[bool, str, int], int, bytes]

# Why a photo comes before the next one: the first part of `keeping_order` in which they differ.
_REASONS = ("most pixels", "largest file", "oldest", "shortest path", "first by name")


def keeping_order(photo: Photo) -> Order:
    """Return what photos are sorted by, the one to keep first.

    Most pixels, then the largest file, the oldest (a date of the camera counts more than one of the file system, for
    copies often lose it), the shortest path, the first by name.
    """
    pixels = (photo.width or 0) * (photo.height or 0)
    date = (photo.taken_at is None, photo.taken_at or "", photo.mtime_ns)
    return -pixels, -photo.size, date, len(photo.path), photo.path


def why_kept(keeper: Photo, next_best: Photo) -> str:
    """Say what `keeper` has over the best of the others."""
    pairs = zip(_REASONS, keeping_order(keeper), keeping_order(next_best), strict=True)
    return next(reason for reason, one, other in pairs if one != other)
