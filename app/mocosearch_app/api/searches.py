"""Routes that search: with a picture in the body, or with a photo of the library."""

from http import HTTPStatus
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, HTTPException, Query, Request
from starlette.requests import ClientDisconnect

from mocosearch_app.api import models
from mocosearch_app.api.models import Neighbors
from mocosearch_app.api.photos import PhotoId
from mocosearch_app.api.problems import problems
from mocosearch_app.api.questions import PictureQuestion, Question
from mocosearch_app.service.examples import Picture
from mocosearch_app.service.looks import Example, Search
from mocosearch_app.service.search import SearchService

MAX_UPLOAD = 64 << 20  # bytes
_PICTURES_AT_ONCE = 32  # that wait for decoders and network, each in a thread; all others wait for a thread

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": f"The bytes of a picture's file: JPEG, PNG, WebP, TIFF, GIF, BMP, AVIF or HEIC, "
        f"up to {MAX_UPLOAD >> 20} MB. Its content tells the format.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def search_routes(service: SearchService) -> APIRouter:
    """Build the routes of one library."""
    router = APIRouter()
    uploads = CapacityLimiter(_PICTURES_AT_ONCE)

    @router.post("/api/search", responses=problems(404, 413, 422), openapi_extra=_BODY)
    async def search(request: Request, question: Annotated[PictureQuestion, Query()]) -> Neighbors:
        """Find the photos most like the picture in the body. A photo of the library finds itself, with a score of 1."""
        picture = Picture(await _body(request), question.part)
        like, unlike = question.examples
        wanted: list[Example | Picture] = [picture, *like]
        found = await to_thread.run_sync(service.find, wanted, unlike, question.filters, question.k, limiter=uploads)
        return Neighbors.of(found)

    @router.get("/api/photos/{id}/similar", responses=problems(404, 422))
    def similar(photo_id: PhotoId, question: Annotated[Question, Query()]) -> Neighbors:
        """Find the photos most like a photo of the library, which is itself left out."""
        like, unlike = question.examples
        return Neighbors.of(service.find([Example(photo_id), *like], unlike, question.filters, question.k))

    @router.post("/api/queries", status_code=HTTPStatus.CREATED, include_in_schema=False)
    async def add_query(request: Request) -> models.Query:
        """Keep a picture in memory for the page, which searches with it and shows it."""
        data = await _body(request)
        example = await to_thread.run_sync(service.add_upload, data, limiter=uploads)
        return models.Query(example=str(example), look=str(Search((example,))))

    return router


async def _body(request: Request) -> bytes:
    """Read the body, but never more than MAX_UPLOAD of it."""
    too_large = HTTPException(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The file is larger than {MAX_UPLOAD >> 20} MB: choose a smaller copy."
    )
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > MAX_UPLOAD:
        raise too_large
    data = bytearray()
    try:
        async for chunk in request.stream():
            if len(data) + len(chunk) > MAX_UPLOAD:
                raise too_large
            data += chunk
    except ClientDisconnect as error:  # nobody is left to read this, but neither is it a fault of the server
        raise HTTPException(HTTPStatus.BAD_REQUEST, "The upload was cut off.") from error
    return bytes(data)
