"""Which files of an index are open now: exchanged as a whole when it was compacted or made anew, under many readers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mocosearch_index.errors import EncoderMismatch, NewGeneration
from mocosearch_index.open_files import OpenFiles
from mocosearch_index.paths import shown

T = TypeVar("T")


class CurrentFiles:
    """`files` of one generation, and `library`: what their catalog said of the whole at the last look.

    Safe to use from many threads through `in_use` and `read`; `files` itself is for the one thread that writes.
    """

    def __init__(self, folder: Path, *, writable: bool) -> None:
        """Open the index in `folder`; DamagedIndex, NewerFormat."""
        self.folder = folder
        self.writable = writable
        self.files = OpenFiles.open(folder, writable=writable)
        self.library = self.files.catalog.library()
        self._swapping = threading.Lock()
        self._refreshing = threading.Lock()

    def close(self) -> None:
        """Close the files as soon as nobody uses them."""
        self.files.give_back()

    @contextmanager
    def in_use(self) -> Iterator[OpenFiles]:
        """Give the files, which stay open while the block runs, whatever takes their place meanwhile."""
        with self._swapping:
            files = self.files
            files.take()
        try:
            yield files
        finally:
            files.give_back()

    def read(self, action: Callable[[OpenFiles], T]) -> T:
        """Return what `action` reads from catalog and vectors together; again when a compaction came between."""
        while True:
            with self.in_use() as files, suppress(NewGeneration):
                return action(files)
            with self._refreshing:
                if self.files is files:
                    self.reopen()

    def committed(self) -> None:
        """Look at what the catalog says of the whole after a commit of one's own."""
        self.library = self.files.catalog.library()

    def refresh(self) -> bool:
        """Show what other processes committed; see `ImageIndex.refresh`."""
        with self._refreshing:
            if self.files.catalog.replaced():
                self.reopen()
                return True
            library = self.files.catalog.library()
            changed = library.change != self.library.change
            try:
                self.files.search.catch_up(library.change)
            except NewGeneration:
                self.reopen()
            else:
                self.library = library
            return changed

    def reopen(self) -> None:
        """Open the files that are there now; EncoderMismatch when they are of another encoder."""
        files = OpenFiles.open(self.folder, writable=self.writable)
        library = files.catalog.library()
        fingerprint = self.library.encoder.fingerprint
        if library.encoder.fingerprint != fingerprint:
            files.give_back()
            raise EncoderMismatch(
                f"The index in {shown(self.folder)} was made anew with another encoder "
                f"({fingerprint} before, {library.encoder.fingerprint} now): "
                "restart `mocosearch serve`, or whatever else has it open."
            )
        with self._swapping:
            before, self.files, self.library = self.files, files, library
        before.give_back()
