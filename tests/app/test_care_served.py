"""Looking after a library through a running server: by buttons alone, and without losing anything when it ends."""

import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from serving import Serving, serving

from mocosearch.library import Library

ACT = 4  # the number of the page's function for buttons
MANY = 400  # photos


def act(server: Serving, action: str) -> str:
    """Press a button of the page."""
    return server.event(ACT, f"{action} 1")


def view(server: Serving, look: str) -> str:
    """Ask for a tab until the server need not look any more."""
    while "Looking through the library" in (html := server.look(look)):
        time.sleep(0.1)
    return html


def done(server: Serving, action: str, tab: str) -> str:
    act(server, action)
    while "data-again" in (html := server.look(tab)):
        time.sleep(0.1)  # the work has the cores
    return html


def test_copies_are_looked_for_by_a_button_and_then_handed_out_as_a_table(own_library: Path, tmp_path: Path) -> None:
    (own_library / "again.png").write_bytes((own_library / "tall.png").read_bytes())
    with serving(own_library, tmp_path) as server:
        with server.client() as client:
            assert client.get("/api/duplicates.csv").status_code == 404
        assert "1 copied" in done(server, "rescan", "library")
        assert "Identical files" in done(server, "find-identical", "duplicates")
        with server.client() as client:
            answer = client.get("/api/duplicates.csv")
        assert answer.headers["content-type"].startswith("text/csv")
        assert answer.headers["content-disposition"] == 'attachment; filename="duplicates.csv"'
        assert str(own_library / "again.png").encode() in answer.content
        assert "Traceback" not in server.log.read_text()


def test_no_address_begins_any_work(server: Serving) -> None:
    for address in ("rescan", "find-copies", "find-identical", "stop", "library=rescan", "duplicates=find-copies"):
        with server.noted():
            assert "Nothing to show" in server.look(address)
    with server.noted():
        assert "Nothing to show" in act(server, "delete-copies")
    assert "data-again" not in view(server, "library")


def test_a_server_that_is_told_to_end_in_the_midst_of_a_rescan_keeps_what_was_done(
    make_library: Callable[[Path], None], tmp_path: Path
) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    make_library(root)
    for number in range(MANY):
        Image.linear_gradient("L").rotate(number % 180).resize((80 + number, 80)).save(root / f"{number}.png")
    with serving(root, tmp_path) as server:
        act(server, "rescan")
        while "embedding new photos, " not in (html := server.look("library")):
            assert "data-again" in html
            time.sleep(0.02)
        assert server.stop() == 0
        assert "Traceback" not in server.log.read_text()
    with Library.open(root, writable=True) as library:
        kept = library.index.counts()["indexed"]
        assert kept > 0
        assert not library.verify()
        assert library.update().embedded == MANY - kept
