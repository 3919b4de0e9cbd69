from PIL import Image

from mocosearch.images.decode import DecodedImage
from mocosearch_app.uploads import KEPT, Uploads


def picture(gray: int = 0) -> DecodedImage:
    return DecodedImage(Image.new("RGB", (30, 20), (gray, gray, gray)), 3000, 2000, None)


def test_an_upload_keeps_the_picture_a_preview_and_the_size_of_the_original() -> None:
    uploads = Uploads()
    upload = uploads.get(uploads.add(picture(), b"WebP"))
    assert upload is not None
    assert (upload.width, upload.height) == (3000, 2000)
    assert (upload.image.size, upload.preview) == ((30, 20), b"WebP")


def test_the_upload_not_used_for_longest_goes_first() -> None:
    uploads = Uploads()
    tokens = [uploads.add(picture(gray), b"WebP") for gray in range(KEPT)]
    assert uploads.get(tokens[0]) is not None
    uploads.add(picture(), b"WebP")
    assert uploads.get(tokens[0]) is not None
    assert uploads.get(tokens[1]) is None
    assert all(uploads.get(token) is not None for token in tokens[2:])


def test_a_token_is_never_given_twice_even_for_the_same_picture() -> None:
    uploads = Uploads()
    assert uploads.add(picture(), b"WebP") != uploads.add(picture(), b"WebP")
    assert uploads.get("0" * 32) is None
