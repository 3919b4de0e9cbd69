"""What the tabs for looking after a library show: the copies that were found, what it holds and how well it is."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mocosearch.duplicates.find import Group
from mocosearch.library import Library, LibraryStatus
from mocosearch_app.service import looks
from mocosearch_app.service.care.caretaker import Caretaker, Ended, Found, Running, Task
from mocosearch_app.service.care.duplicates_csv import duplicates_csv
from mocosearch_app.service.care.encoder_facts import encoder_facts
from mocosearch_app.service.care.training_run import TrainingRun, run_of
from mocosearch_app.service.tiles import NothingToShow, Tile
from mocosearch_index.paths import printable
from mocosearch_index.records import Photo, Version

if TYPE_CHECKING:  # torch is loaded in the background: the first photos need not wait for it
    from mocosearch.encoders import EncoderFacts

GROUPS = 30  # a page
COPIES = 24  # shown of a group; the export has them all
_PATIENCE = 0.5  # seconds that a view waits for a look through the library; then the page asks again

_TABS: dict[Task, looks.Duplicates | looks.LibraryFacts] = {
    "rescan": looks.LibraryFacts(),
    "find-copies": looks.Duplicates(),
    "find-identical": looks.Duplicates(),
}

Work = Running | Ended | None


@dataclass(frozen=True, slots=True)
class DuplicatesView:
    """A page of the groups that were found last, each photo's tile by its id; `found` None: nobody looked yet."""

    look: looks.Duplicates
    work: Work
    found: Found | None
    is_old: bool  # the library changed since
    groups: list[Group]
    tiles: dict[int, Tile]
    pages: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a library holds, and what is known of its encoder and of the run that trained it."""

    status: LibraryStatus
    encoder: "EncoderFacts | None"
    run: TrainingRun | None


@dataclass(frozen=True, slots=True)
class LibraryView:
    """The work and the holdings; None while the folder is still being looked through."""

    look: looks.LibraryFacts
    work: Work
    holdings: Holdings | None


class Care:
    """Looks after one library for all who look at it. Safe to call from many threads."""

    def __init__(self, library: Library, tile: Callable[[int], Tile | None]) -> None:
        """`tile` gives the tile of the photo with an id, None when the library has forgotten it."""
        self._library = library
        self._tile = tile
        self._caretaker = Caretaker(library)
        self._holdings = _LatestHoldings(library)

    def close(self) -> None:
        """Stop what is going on, keeping what a rescan has done, and wait for it."""
        self._caretaker.close()
        self._holdings.close()

    def act(self, action: str) -> looks.Duplicates | looks.LibraryFacts | None:
        """Begin a task by its name, or "stop" the one that goes on; return the tab that it is of, None for other words.

        Where one goes on already it stays the only one.
        """
        if action == "stop":
            self._caretaker.stop()
            state = self._caretaker.state()
            return _TABS["rescan" if state is None else state.task]
        task = next((task for task in _TABS if task == action), None)
        if task is None:
            return None
        self._caretaker.start(task)
        return _TABS[task]

    def work(self) -> Work:
        """Tell what is going on, or how the last task ended."""
        return self._caretaker.state()

    def duplicates(self, look: looks.Duplicates) -> DuplicatesView:
        """Show a page of groups; the last one instead of one beyond."""
        work, found = self.work(), self._caretaker.found
        if found is None:
            return DuplicatesView(look, work, None, False, [], {}, 1)
        self._library.index.refresh()
        pages = max(1, -(-len(found.report.groups) // GROUPS))
        page = min(look.page, pages)
        groups = found.report.groups[(page - 1) * GROUPS : page * GROUPS]
        shown = [photo for group in groups for photo in (group.keeper, *(copy.photo for copy in group.copies[:COPIES]))]
        tiles = {photo.id: self._tile(photo.id) or _forgotten(photo) for photo in shown}
        is_old = found.version != self._library.index.version
        return DuplicatesView(looks.Duplicates(page), work, found, is_old, groups, tiles, pages)

    def duplicates_csv(self) -> bytes:
        """Return all copies that were found as a table; NothingToShow when nobody has looked for them yet."""
        found = self._caretaker.found
        if found is None:
            raise NothingToShow("No copies were looked for yet: do so on the page's tab Duplicates.")
        return duplicates_csv(self._library.index, found.report)

    def library(self, look: looks.LibraryFacts) -> LibraryView:
        """Show what the library holds; DamagedIndex."""
        work = self.work()  # first: when it has just ended, the holdings are those of after it
        return LibraryView(look, work, self._holdings.get(fresh=not isinstance(work, Running)))


class _LatestHoldings:
    """The holdings of a library, looked up in a thread: its folder may be large or far away, torch not yet loaded."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._thread = ThreadPoolExecutor(1, "holdings")
        self._lock = threading.Lock()
        self._looking: Future[Holdings] | None = None
        self._began_at: Version | None = None
        self._last: Holdings | None = None

    def close(self) -> None:
        """Wait for the look that goes on."""
        self._thread.shutdown(cancel_futures=True)

    def get(self, *, fresh: bool) -> Holdings | None:
        """Look again, unless any will do and there is one; None when it takes long: ask again. DamagedIndex."""
        self._library.index.refresh()
        version = self._library.index.version
        with self._lock:
            if self._last is not None and not fresh:
                return self._last
            if self._looking is None or (fresh and self._began_at != version):  # one that began before shows what was
                self._looking, self._began_at = self._thread.submit(self._look), version
            looking = self._looking
        wait([looking], _PATIENCE)
        if not looking.done():
            return None
        with self._lock:
            if self._looking is looking:
                self._looking = None
        self._last = looking.result()
        return self._last

    def _look(self) -> Holdings:
        encoder = self._library.index.encoder
        return Holdings(self._library.status(), encoder_facts(self._library), run_of(encoder.fingerprint))


def _forgotten(photo: Photo) -> Tile:
    folder, _, name = printable(photo.path).rpartition("/")
    return Tile(name, folder, photo.width or 1, photo.height or 1, None, looks.Example(photo.id))
