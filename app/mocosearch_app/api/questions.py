"""What a client may ask of a search: the same words as on the command line."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from mocosearch.library.queries import Crop, first_and_last_second
from mocosearch_app.service.looks import MOST_EXAMPLES, Example, Filters
from mocosearch_app.service.search import MOST

LARGEST_ID = 2**63 - 1
_LONGEST_PATH = 4096  # characters


def _date(text: str) -> str:
    try:
        first_and_last_second(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: write one as 2024, 2024-05, 2024-05-31 or 2024-05-31T18:30") from error
    return text


def _part(text: str) -> str:
    try:
        Crop.parse(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is no part of a picture: write x,y,w,h, as 10,20,300,200 or 25%,25%,50%,50%"
        ) from error
    return text


def _like(pattern: str) -> dict[str, JsonValue]:
    """Tell in the OpenAPI document what a text looks like; the words of an error are better without it."""
    return {"pattern": pattern}


_DATE = "^[0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?)?)?$"
_NUMBER = "[0-9]+([.][0-9]+)?%?"
_PART = f"^{_NUMBER}(,{_NUMBER}){{3}}$"

Date = Annotated[str, Field(max_length=19, examples=["2024-05"], json_schema_extra=_like(_DATE)), AfterValidator(_date)]
Part = Annotated[
    str, Field(max_length=100, examples=["25%,25%,50%,50%"], json_schema_extra=_like(_PART)), AfterValidator(_part)
]
Ids = Annotated[list[Annotated[int, Field(ge=0, le=LARGEST_ID)]], Field(max_length=MOST_EXAMPLES)]


class Question(BaseModel):
    """What is searched for, beside the picture itself. A parameter that is not among these is refused."""

    model_config = ConfigDict(extra="forbid")

    k: int = Field(10, ge=1, le=MOST, description="How many photos to find.")
    folder: str | None = Field(
        None, max_length=_LONGEST_PATH, description="Only photos in this folder of the library, and below it."
    )
    since: Date | None = Field(None, description="Only photos taken then or later; those without a date pass no date.")
    until: Date | None = Field(None, description="Only photos taken by the end of that year, month, day or minute.")
    min_score: float | None = Field(
        None, ge=-1, le=1, allow_inf_nan=False, description="Only photos with at least this score."
    )
    like: Ids = Field([], description="Ids of further photos to search with: the mean of all is taken.")
    unlike: Ids = Field([], description="Ids of photos to look away from.")

    @property
    def filters(self) -> Filters:
        """Which photos may be found."""
        return Filters(self.folder, self.since, self.until, self.min_score)

    @property
    def examples(self) -> tuple[list[Example], list[Example]]:
        """The photos of `like` and of `unlike`."""
        return [Example(photo_id) for photo_id in self.like], [Example(photo_id) for photo_id in self.unlike]


class PictureQuestion(Question):
    """The same, with a picture in the body."""

    crop: Part | None = Field(
        None,
        description="Search with this part of the picture, `x,y,w,h`: pixels of the upright picture, or percent.",
    )

    @property
    def part(self) -> Crop | None:
        """What to cut out of the picture."""
        return None if self.crop is None else Crop.parse(self.crop)
