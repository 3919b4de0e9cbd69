"""Parts of pictures and dates are read as people write them."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mocosearch.errors import BadCrop
from mocosearch.library.queries import Crop, first_and_last_second


def test_a_part_is_given_in_pixels_or_percent_of_its_side() -> None:
    image = Image.linear_gradient("L").resize((200, 100))
    whole = np.asarray(image)
    for text in ("50,25,100,50", "25%,25%,50%,50%", " 50 , 25% , 50% , 50 "):
        assert np.array_equal(np.asarray(Crop.parse(text).of(image)), whole[25:75, 50:150])
    assert np.array_equal(np.asarray(Crop.parse("0,0,100%,100%").of(image)), whole)


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "1,2,3,4,5", "a,0,1,1", "-1,0,5,5", "nan,0,5,5", "inf,0,5,5", "5%%,0,5,5"]
)
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - Python's own words, which nobody sees
        Crop.parse(text)


@pytest.mark.parametrize(
    "text", ["0,0,201,10", "195,0,10,10", "0,0,0,10", "0,99.9,10,0.1", "0,50%,10,51%", "1e300,0,1,1"]
)
def test_a_part_that_is_empty_or_outside_of_the_picture_is_refused(text: str) -> None:
    with pytest.raises(BadCrop, match="200 x 100 pixels"):
        Crop.parse(text).of(Image.new("L", (200, 100)))


@given(st.datetimes(datetime(1000, 1, 1), datetime(9998, 1, 1)), st.sampled_from([4, 7, 10, 16, 19]))
def test_a_date_spans_all_that_it_leaves_open(moment: datetime, known: int) -> None:
    text = moment.replace(microsecond=0).isoformat()
    first, last = first_and_last_second(text[:known])
    assert first <= text <= last
    before, after = (
        datetime.fromisoformat(first) - timedelta(seconds=1),
        datetime.fromisoformat(last) + timedelta(seconds=1),
    )
    assert before.isoformat()[:known] != text[:known] != after.isoformat()[:known]


@pytest.mark.parametrize(
    "text", ["", "24", "2024-", "2024-5", "2024-13", "2023-02-29", "2024-05-31T", "yesterday", "2024-05-31 10:00"]
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - Python's own words, which nobody sees
        first_and_last_second(text)
