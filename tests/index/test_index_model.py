"""Any sequence of changes leaves the index equal to a plain dictionary, for its writer and for a reader."""

import shutil
import tempfile
from pathlib import Path

from generated_photos import ENCODER, assert_stored, broken, photo
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mocosearch_index.image_index import ImageIndex

PATHS = st.sampled_from([b"a.jpg", b"b/c.jpg", b"\xff\xfe.jpg", b"new\nline.jpg", b"x" * 255, "ä😀.jpg".encode()])


class Library(RuleBasedStateMachine):
    """The model: for each path its state and the version of its content."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[bytes, tuple[str, int]] = {}
        self.before_missing: dict[bytes, str] = {}
        self.ids: dict[bytes, int] = {}
        self.version = 0

    @initialize()
    def make(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.folder = self.root / ".mocosearch"
        self.index = ImageIndex.create(self.folder, root=self.root, encoder=ENCODER)
        self.reader = ImageIndex.open(self.folder)

    def teardown(self) -> None:
        self.index.close()
        self.reader.close()
        shutil.rmtree(self.root)

    @rule(found=st.sets(PATHS, max_size=4), unreadable=st.sets(PATHS, max_size=2))
    def files_are_new_or_changed(self, found: set[bytes], unreadable: set[bytes]) -> None:
        self.version += 1
        found -= unreadable
        self.index.commit(
            [photo(path, self.version) for path in sorted(found)],
            [broken(path, self.version) for path in sorted(unreadable)],
        )
        self.model |= dict.fromkeys(found, ("indexed", self.version))
        self.model |= dict.fromkeys(unreadable, ("skipped", self.version))

    @precondition(lambda self: any(state != "missing" for state, _ in self.model.values()))
    @rule(data=st.data())
    def files_vanish(self, data: st.DataObject) -> None:
        there = sorted(path for path, (state, _) in self.model.items() if state != "missing")
        for path in data.draw(st.sets(st.sampled_from(there), min_size=1)):
            state, version = self.model[path]
            self.before_missing[path] = state
            self.model[path] = "missing", version
            self.index.commit(missing=[self.index.known()[path].id])

    @precondition(lambda self: any(state == "missing" for state, _ in self.model.values()))
    @rule(data=st.data())
    def a_file_returns_unchanged(self, data: st.DataObject) -> None:
        gone = sorted(path for path, (state, _) in self.model.items() if state == "missing")
        path = data.draw(st.sampled_from(gone))
        self.model[path] = self.before_missing[path], self.model[path][1]
        self.index.commit(returned=[self.index.known()[path].id])

    @rule()
    def the_search_file_is_written(self) -> None:
        self.index.save_search_file()

    @rule()
    def the_writer_is_closed_and_opened_again(self) -> None:
        self.index.close()
        self.index = ImageIndex.open(self.folder, writable=True)

    @invariant()
    def everybody_sees_the_model(self) -> None:
        if not hasattr(self, "index"):
            return
        self.reader.refresh()
        wanted = {path: version for path, (state, version) in self.model.items() if state == "indexed"}
        for index in (self.index, self.reader):
            assert_stored(index, wanted)
            states = {found.path: found.state for found in index.photos()}
            assert states == {path: state for path, (state, _) in self.model.items()}

    @invariant()
    def ids_stay_with_their_path(self) -> None:
        if not hasattr(self, "index"):
            return
        known = {path: file.id for path, file in self.index.known().items()}
        assert known.items() >= self.ids.items()
        self.ids = known

    @invariant()
    def verify_is_content(self) -> None:
        if hasattr(self, "index"):
            assert self.index.verify() == []


TestLibrary = Library.TestCase
TestLibrary.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
