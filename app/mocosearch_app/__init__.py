"""The page in the browser and its HTTP interface."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mocosearch_app.server import serve

__all__ = ["serve"]


def __getattr__(name: str) -> object:
    """Load the server, and with it gradio, when it is first asked for."""
    if name == "serve":
        from mocosearch_app.server import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
