"""Errors as answers: {"detail": one line for a person}, and the status that fits."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from mocosearch.errors import BadCrop
from mocosearch.images.decode import Undecodable
from mocosearch_app.api.models import Problem
from mocosearch_app.service.embedder import Busy
from mocosearch_app.service.tiles import NothingToShow
from mocosearch_index.errors import MocosearchError

_LATER = {"Retry-After": "5"}  # seconds
_WHEN = {
    400: "The request is addressed to another server's name, or its upload was cut off.",
    401: "A password or a token is set, and none, or a wrong one, came with the request.",
    403: "A web page of another origin asked.",
    404: "There is no such photo, picture or folder (any more).",
    413: "The picture's file is too large.",
    422: "The body is no picture that can be read, or a parameter says nothing sensible.",
    429: "Too many wrong passwords or tokens came from this client: it has to wait as `Retry-After` says.",
    431: "The head of the request is larger than any browser sends: its parameters have to be shorter.",
    503: "So much is going on that this has to be asked for again, or the library has a fault that the words name.",
}
_OF_EVERY_ROUTE = frozenset({400, 401, 403, 429, 431, 503})


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI document, the errors of a route; those of every route are among them."""
    return {
        status: {"model": Problem, "description": _WHEN[status]} for status in sorted(_OF_EVERY_ROUTE.union(statuses))
    }


def answer_in_words(api: FastAPI) -> None:
    """Answer the errors that the routes of `api` raise."""

    @api.exception_handler(MocosearchError)
    async def failed(_: Request, error: MocosearchError) -> JSONResponse:
        return JSONResponse({"detail": _words(error)}, _status(error), _LATER if isinstance(error, Busy) else None)

    @api.exception_handler(RequestValidationError)
    async def misunderstood(_: Request, error: RequestValidationError) -> JSONResponse:
        words = "; ".join(f"{_name(each['loc'])}: {_message(each)}" for each in error.errors())
        return JSONResponse({"detail": f"{words}."}, HTTPStatus.UNPROCESSABLE_ENTITY)


def _status(error: MocosearchError) -> HTTPStatus:
    match error:
        case NothingToShow():
            return HTTPStatus.NOT_FOUND
        case Undecodable() | BadCrop():
            return HTTPStatus.UNPROCESSABLE_ENTITY
        case _:
            return HTTPStatus.SERVICE_UNAVAILABLE


def _words(error: MocosearchError) -> str:
    if isinstance(error, Undecodable):  # what the decoder said helps nobody
        return str(error).removesuffix(f" ({error.detail})") + "."
    return str(error)


def _name(place: Sequence[int | str]) -> str:
    """The parameter, without where it stands in the request."""
    return ".".join(map(str, place[1:]))


def _message(error: dict[str, Any]) -> str:
    message: str = error["msg"]
    return message.removeprefix("Value error, ")
