"""What the HTTP interface answers, as its OpenAPI document describes it."""

from typing import Literal, Self

from pydantic import BaseModel, Field

from mocosearch_app.service.tiles import Detail, Found, Tile


class Problem(BaseModel):
    """Why there is no better answer."""

    detail: str = Field(description="One line for a person: what is wrong, and what to do about it.")


class Health(BaseModel):
    """That the server answers."""

    status: Literal["ok"] = "ok"


class Folder(BaseModel):
    """A folder of the library."""

    folder: str = Field(description="Its printable path from the library's root, as the filter `folder` takes it.")
    photos: int = Field(description="How many photos are in it and below it.")


class Photo(BaseModel):
    """A photo of the library."""

    id: int = Field(description="Stays the same when its file is moved, and is never given to another photo.")
    path: str = Field(
        description="Its path from the library's root, printable: what is not printable or not UTF-8 is escaped."
    )
    uri: str = Field(description="Its absolute path on the server's machine, exact to the byte, as a file: URI.")
    width: int = Field(description="Pixels of the upright picture.")
    height: int
    taken_at: str | None = Field(description="Local time of the camera, `YYYY-MM-DDTHH:MM:SS`; null: not known.")
    thumbnail: str | None = Field(
        description="Address on this server of a WebP of at most 512 pixels a side; null: its file is gone."
    )

    @classmethod
    def facts(cls, tile: Tile) -> dict[str, object]:
        """Return the fields of `tile`, which is of a photo of the library."""
        assert tile.file is not None
        return {
            "id": tile.example.of,
            "path": tile.path,
            "uri": tile.file.as_uri(),
            "width": tile.width,
            "height": tile.height,
            "taken_at": tile.taken_at,
            "thumbnail": tile.thumbnail,
        }


class PhotoFacts(Photo):
    """All that is known of a photo."""

    size: int = Field(description="Bytes of its file.")
    preview: str | None = Field(description="Address of a WebP of at most 1600 pixels a side; null: its file is gone.")
    original: str | None = Field(description="Address of its file; null: it is gone.")

    @classmethod
    def of(cls, detail: Detail) -> Self:
        """Take over what the service tells."""
        own = {"size": detail.size, "preview": detail.preview, "original": detail.original}
        return cls.model_validate(cls.facts(detail.tile) | own)


class Neighbor(Photo):
    """A photo that was found."""

    score: float = Field(
        description="Cosine similarity, from -1 to 1: 1 for the same picture; around 0 for unlike ones, if whitened."
    )


class Neighbors(BaseModel):
    """What a search found."""

    photos: list[Neighbor] = Field(description="The best first.")
    milliseconds: float = Field(description="How long it took to decode, to embed and to search.")

    @classmethod
    def of(cls, found: Found) -> Self:
        """Take over what the service found."""
        photos = [Neighbor.model_validate(Photo.facts(tile) | {"score": tile.score}) for tile in found.tiles]
        return cls(photos=photos, milliseconds=round(found.milliseconds, 3))


class Query(BaseModel):
    """A picture that was uploaded to be searched with on the page."""

    example: str = Field(description="What the page calls it.")
    look: str = Field(description="What stands behind the # of the page's address, to search with it.")
