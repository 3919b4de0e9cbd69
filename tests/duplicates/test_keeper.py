"""Which of several copies is kept, and the reason given."""

from dataclasses import replace

import pytest

from mocosearch.duplicates.find import keeping_order, why_kept
from mocosearch_index.records import Photo

PHOTO = Photo(1, b"some/path.jpg", 1000, 5, b"h", 40, 30, "2020-01-01T00:00:00", "indexed", None, None)


@pytest.mark.parametrize(
    ("worse", "reason"),
    [
        (replace(PHOTO, width=39, size=9999, taken_at="1999-01-01T00:00:00"), "most pixels"),
        (replace(PHOTO, size=999, taken_at="1999-01-01T00:00:00"), "largest file"),
        (replace(PHOTO, taken_at="2021-01-01T00:00:00", path=b"a"), "oldest"),
        (replace(PHOTO, taken_at=None, mtime_ns=0, path=b"a"), "oldest"),
        (replace(PHOTO, mtime_ns=6, path=b"a"), "oldest"),
        (replace(PHOTO, path=b"some/longer/path.jpg"), "shortest path"),
        (replace(PHOTO, path=b"some/path.jqg"), "first by name"),
    ],
)
def test_what_one_photo_has_over_the_other(worse: Photo, reason: str) -> None:
    assert min(worse, PHOTO, key=keeping_order) is PHOTO
    assert why_kept(PHOTO, worse) == reason


def test_turned_photos_have_as_many_pixels() -> None:
    assert why_kept(PHOTO, replace(PHOTO, width=30, height=40, size=1)) == "largest file"
