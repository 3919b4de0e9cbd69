import numpy as np

from mocosearch_app.service.uploads import KEPT, Upload, Uploads


def picture(value: int = 0) -> Upload:
    return Upload(np.full(8, value, np.float32), b"WebP", 3000, 2000)


def test_an_upload_is_kept_as_it_was_given() -> None:
    uploads = Uploads()
    upload = picture()
    assert uploads.get(uploads.add(upload)) is upload


def test_the_upload_not_used_for_longest_goes_first() -> None:
    uploads = Uploads()
    tokens = [uploads.add(picture(value)) for value in range(KEPT)]
    assert uploads.get(tokens[0]) is not None
    uploads.add(picture())
    assert uploads.get(tokens[0]) is not None
    assert uploads.get(tokens[1]) is None
    assert all(uploads.get(token) is not None for token in tokens[2:])


def test_a_token_is_never_given_twice_even_for_the_same_picture() -> None:
    uploads = Uploads()
    assert uploads.add(picture()) != uploads.add(picture())
    assert uploads.get("0" * 32) is None
