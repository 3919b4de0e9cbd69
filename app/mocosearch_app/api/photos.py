"""Routes about the photos of the library: what is known of them, and what they look like."""

from http import HTTPStatus
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Path, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from mocosearch_app.api.models import Folder, PhotoFacts
from mocosearch_app.api.problems import problems
from mocosearch_app.api.questions import LARGEST_ID
from mocosearch_app.service.pictures.originals import Original
from mocosearch_app.service.pictures.thumbnails import Kind
from mocosearch_app.service.search import SearchService

_AT_ONCE = 16  # pictures that are read, or wait for a decoder
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}  # another picture has another name
_FOR_A_WHILE = {"Cache-Control": "private, max-age=3600"}  # the server forgets uploads
_WEBP = "image/webp"
_UNKNOWN = "application/octet-stream"

PhotoId = Annotated[int, Path(alias="id", ge=0, le=LARGEST_ID)]


class WholeFile(StreamingResponse):
    """An original. Its file is closed when the client leaves amid it, and not only when Python tidies up some day."""

    def __init__(self, file: Original) -> None:
        headers = {"Content-Disposition": file.disposition, "Content-Length": str(file.size)}
        super().__init__(file.chunks(), media_type=file.media_type, headers=headers)
        self._file = file.file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file as far as the client takes it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def photo_routes(service: SearchService) -> APIRouter:
    """Build the routes of one library."""
    router = APIRouter()
    pictures = CapacityLimiter(_AT_ONCE)

    @router.get("/api/folders", responses=problems())
    def folders() -> list[Folder]:
        """List the folders of the library that hold photos, in themselves or below."""
        return [Folder(folder=name, photos=count) for name, count in service.folders().items()]

    @router.get("/api/photos/{id}", responses=problems(404, 422))
    def photo(photo_id: PhotoId) -> PhotoFacts:
        """Tell all that is known of a photo."""
        return PhotoFacts.of(service.detail(photo_id))

    @router.get("/api/photos/{id}/thumbnail", response_class=Response, responses=_file(404, 422, kinds=[_WEBP]))
    async def thumbnail(photo_id: PhotoId) -> Response:
        """Give a small picture of a photo, a WebP of at most 512 pixels a side, upright and without metadata."""
        data = await to_thread.run_sync(service.thumbnail, photo_id, limiter=pictures)
        return Response(data, media_type=_WEBP)

    @router.get(
        "/api/photos/{id}/original",
        response_class=Response,
        responses=_file(404, 422, kinds=["image/*", _UNKNOWN]),
    )
    async def original(photo_id: PhotoId) -> Response:
        """Give the file of a photo as it is; what browsers do not show themselves comes as an attachment."""
        file = await to_thread.run_sync(service.original, photo_id, limiter=pictures)
        return WholeFile(file)

    @router.get("/api/duplicates.csv", response_class=Response, responses=_file(404, kinds=["text/csv; charset=utf-8"]))
    def duplicates() -> Response:
        """Give all copies that were found last as a table, when somebody has looked for them on the page."""
        headers = {"Content-Disposition": 'attachment; filename="duplicates.csv"'}
        return Response(service.care.duplicates_csv(), media_type="text/csv", headers=headers)

    @router.get("/thumbnails/{name}.webp", response_class=Response, responses=_file(404, 422, kinds=[_WEBP]))
    async def thumbnail_by_name(name: str) -> Response:
        """Give a small picture by the address that came with a photo; it never changes, and can be kept for ever."""
        return await small_picture(name, Kind.THUMBNAIL)

    @router.get("/previews/{name}.webp", response_class=Response, responses=_file(404, 422, kinds=[_WEBP]))
    async def preview_by_name(name: str) -> Response:
        """Give a larger one, of at most 1600 pixels a side."""
        return await small_picture(name, Kind.PREVIEW)

    async def small_picture(name: str, kind: Kind) -> Response:
        data = await to_thread.run_sync(service.picture, name, kind, limiter=pictures)
        return Response(data, media_type=_WEBP, headers=_FOREVER)

    @router.get("/uploads/{token}.webp", include_in_schema=False)
    async def upload(token: str) -> Response:
        data = await to_thread.run_sync(service.upload_preview, token, limiter=pictures)
        return Response(data, media_type=_WEBP, headers=_FOR_A_WHILE)

    return router


def _file(*statuses: int, kinds: list[str]) -> dict[int | str, dict[str, Any]]:
    """Describe answers that are a file of one of these kinds."""
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}
    return {HTTPStatus.OK.value: {"description": "The file.", "content": content}} | problems(*statuses)
