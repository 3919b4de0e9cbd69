"""The HTTP interface for programs, with a document that describes it, and the files of the page."""

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from mocosearch import __version__
from mocosearch_app.api.models import Health
from mocosearch_app.api.page_files import page_files
from mocosearch_app.api.photos import photo_routes
from mocosearch_app.api.problems import answer_in_words
from mocosearch_app.api.searches import MAX_UPLOAD, search_routes
from mocosearch_app.service.search import SearchService

__all__ = ["MAX_UPLOAD", "build_api"]

_DESCRIPTION = (
    "Search a library of photos by picture. Every error is answered with one line for a person. "
    "docs/api.md of mocosearch has examples."
)
# The door of the server checks it, for the page as well: here it is only described.
_TOKEN = HTTPBearer(
    scheme_name="token",
    description="The token or the password of `mocosearch serve`; needed where one is set.",
    auto_error=False,
)


def build_api(service: SearchService) -> FastAPI:
    """Build the routes of one library. FastAPI's pages that show the document would load scripts from elsewhere."""
    api = FastAPI(
        title="mocosearch",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # what a client made of the document calls its methods
    )
    answer_in_words(api)

    @api.get("/healthz")
    async def healthz() -> Health:
        """Tell that the server answers; asks for no token."""
        return Health()

    for router in (search_routes(service), photo_routes(service)):
        api.include_router(router, dependencies=[Depends(_TOKEN)])
    api.include_router(page_files())
    return api
