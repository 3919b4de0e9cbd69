"""The files of the page: its styles, its scripts, its icon."""

from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePath

from fastapi import APIRouter, HTTPException, Response

_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/manifest+json",
    ".svg": "image/svg+xml",
}


def page_files() -> APIRouter:
    """Serve them, read once; they are no part of the interface for programs."""
    router = APIRouter(include_in_schema=False)
    contents = {file.name: file.read_bytes() for file in (files("mocosearch_app") / "assets").iterdir()}

    @router.get("/page/{name}")
    async def page_file(name: str) -> Response:
        if name not in contents:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file.")
        caching = "private, max-age=86400" if name == "icon.svg" else "no-cache"
        return Response(contents[name], media_type=_TYPES[PurePath(name).suffix], headers={"Cache-Control": caching})

    @router.get("/favicon.ico")
    async def favicon() -> Response:
        return await page_file("icon.svg")

    @router.get("/manifest.json")
    async def manifest() -> Response:
        return await page_file("manifest.json")

    return router
