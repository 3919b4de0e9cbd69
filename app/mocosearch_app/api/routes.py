"""The HTTP routes beside the page: upload a picture, pictures to look at, the page's own files, health."""

import os
from importlib.resources import files
from pathlib import PurePath

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from mocosearch.images.decode import Undecodable
from mocosearch_app.service.looks import Search
from mocosearch_app.service.search import SearchService
from mocosearch_app.service.thumbnails import Kind
from mocosearch_app.service.tiles import NothingToShow
from mocosearch_index.errors import MocosearchError

MAX_UPLOAD = 64 << 20  # bytes
_UPLOADS_AT_ONCE = 8  # each takes up to MAX_UPLOAD of memory while it is received
_DECODING_AT_ONCE = min(8, os.cpu_count() or 2)  # uploads and thumbnails
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
_SESSION = {"Cache-Control": "private, max-age=3600"}
_ASSETS = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".json": "application/manifest+json",
}


def build_api(service: SearchService) -> FastAPI:
    """Build the routes of one library. Errors are JSON: {"detail": words for a person}."""
    api = FastAPI(title="mocosearch", docs_url=None, redoc_url=None, openapi_url=None)
    decoding = CapacityLimiter(_DECODING_AT_ONCE)
    receiving = 0

    @api.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @api.post("/api/queries", status_code=201)
    async def add_query(request: Request) -> dict[str, str]:
        """Take the bytes of a picture's file as the body; answer the look that searches with it."""
        nonlocal receiving
        if receiving >= _UPLOADS_AT_ONCE:
            raise HTTPException(503, "Many pictures are being searched with: try again in a moment.")
        receiving += 1
        try:
            data = await _body(request)
            example = await to_thread.run_sync(service.add_upload, data, limiter=decoding)
        finally:
            receiving -= 1
        return {"example": str(example), "look": str(Search((example,)))}

    @api.get("/thumbnails/{name}.webp")
    async def thumbnail(name: str) -> Response:
        return await picture(name, Kind.THUMBNAIL)

    @api.get("/previews/{name}.webp")
    async def preview(name: str) -> Response:
        return await picture(name, Kind.PREVIEW)

    async def picture(name: str, kind: Kind) -> Response:
        data = await to_thread.run_sync(service.picture, name, kind, limiter=decoding)
        return Response(data, media_type="image/webp", headers=_FOREVER)

    @api.get("/uploads/{token}.webp")
    async def upload_preview(token: str) -> Response:
        data = await to_thread.run_sync(service.upload_preview, token, limiter=decoding)
        return Response(data, media_type="image/webp", headers=_SESSION)

    @api.exception_handler(MocosearchError)
    async def in_words(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": _words(error)}, _status(error))

    _add_assets(api)
    return api


def _add_assets(api: FastAPI) -> None:
    """Serve the files of the page, read once."""
    contents = {file.name: file.read_bytes() for file in (files("mocosearch_app") / "assets").iterdir()}

    @api.get("/page/{name}")
    async def asset(name: str) -> Response:
        if name not in contents:
            raise HTTPException(404, "There is no such file.")
        caching = "private, max-age=86400" if name == "icon.svg" else "no-cache"
        return Response(contents[name], media_type=_ASSETS[PurePath(name).suffix], headers={"Cache-Control": caching})

    @api.get("/favicon.ico")
    async def favicon() -> Response:
        return await asset("icon.svg")

    @api.get("/manifest.json")
    async def manifest() -> Response:
        return await asset("manifest.json")


def _status(error: Exception) -> int:
    if isinstance(error, NothingToShow):
        return 404
    return 422 if isinstance(error, Undecodable) else 503


def _words(error: Exception) -> str:
    if isinstance(error, Undecodable):  # what the decoder said helps nobody on the page
        return str(error).removesuffix(f" ({error.detail})") + "."
    return str(error)


async def _body(request: Request) -> bytes:
    """Read the body, but never more than MAX_UPLOAD of it."""
    too_large = HTTPException(413, f"The file is larger than {MAX_UPLOAD >> 20} MB: choose a smaller copy.")
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
        raise HTTPException(400, "The upload was cut off.") from error
    return bytes(data)
