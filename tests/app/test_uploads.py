import numpy as np

from mocosearch_app.service.uploads import MOST, MOST_BYTES, Upload, Uploads


def picture(value: int = 0, file: bytes = b"file") -> Upload:
    return Upload(file, np.full(8, value, np.float32), 3000, 2000)


def test_an_upload_is_kept_as_it_was_given() -> None:
    uploads = Uploads()
    upload = picture()
    assert uploads.get(uploads.add(upload)) is upload


def test_the_upload_not_used_for_longest_goes_first() -> None:
    uploads = Uploads()
    tokens = [uploads.add(picture(value)) for value in range(MOST)]
    assert uploads.get(tokens[0]) is not None
    uploads.add(picture())
    assert uploads.get(tokens[0]) is not None
    assert uploads.get(tokens[1]) is None
    assert all(uploads.get(token) is not None for token in tokens[2:])


def test_a_token_is_never_given_twice_even_for_the_same_picture() -> None:
    uploads = Uploads()
    assert uploads.add(picture()) != uploads.add(picture())
    assert uploads.get("0" * 32) is None


def test_large_files_push_out_those_not_used_for_longest_but_never_the_one_just_added() -> None:
    uploads = Uploads()
    small, half, large = b"file", bytes(MOST_BYTES // 2), bytes(MOST_BYTES + 1)
    first, second = uploads.add(picture(file=small)), uploads.add(picture(file=half))
    third = uploads.add(picture(file=half))
    assert [uploads.get(token) is not None for token in (first, second, third)] == [False, True, True]
    last = uploads.add(picture(file=large))
    assert [uploads.get(token) is not None for token in (second, third, last)] == [False, False, True]
