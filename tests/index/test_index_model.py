"""Any sequence of changes leaves the index equal to a plain dictionary, for its writer and for a reader."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis
from generated_photos import ENCODER, assert_contents, broken, photo
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, FileStamp, IndexSettings, SearchSettings

PATHS = [b"a.jpg", b"b/c.jpg", b"\xff\xfe.jpg", b"new\nline.jpg", b"x" * 255, "ä😀.jpg".encode()]
Content = tuple[bytes, int] | None  # a name and a version, None: cannot be read
CONTENTS = st.one_of(st.none(), st.tuples(st.sampled_from([b"cat", b"dog"]), st.integers(0, 3)))
SETTINGS = st.builds(
    IndexSettings,
    search=st.builds(SearchSettings, level=st.sampled_from([None, "exact"])),
    exclude=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


@dataclass
class File:
    """What the model knows of a path."""

    id: int
    content: Content
    missing: bool = False


def stamp(path: bytes, content: Content) -> FileStamp:
    made_from = broken(path) if content is None else photo(*content)
    return made_from.stamp._replace(path=path)


def embedded(path: bytes, name: bytes, version: int) -> EmbeddedPhoto:
    return replace(photo(name, version), stamp=stamp(path, (name, version)))


class Library(RuleBasedStateMachine):
    """The model: every path that is known, with its content, and the settings."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[bytes, File] = {}
        self.settings = IndexSettings()
        self.last_id = 0

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

    @rule(found=st.dictionaries(st.sampled_from(PATHS), CONTENTS))
    def the_folder_is_scanned(self, found: dict[bytes, Content]) -> None:
        """Whatever is there now, one commit makes it known: as an update of a library would."""
        changed = {
            path for path, content in found.items() if path in self.model and self.model[path].content != content
        }
        gone = {path for path, file in self.model.items() if path not in found and not file.missing}
        moved = self._moves(found)
        gone -= moved.keys()
        back = {path for path in found if path in self.model and self.model[path].missing} - changed
        new = found.keys() - self.model.keys() - set(moved.values())
        read = sorted(changed | new)
        self.index.commit(
            [embedded(path, *content) for path in read if (content := found[path]) is not None],
            [broken(path) for path in read if found[path] is None],
            missing=[self.model[path].id for path in gone],
            returned=[self.model[path].id for path in back],
            moved=[(self.model[old].id, stamp(path, found[path])) for old, path in moved.items()],
        )
        for path in gone:
            self.model[path].missing = True
        for old, path in moved.items():
            self.model[path] = self.model.pop(old)
        known = self.index.known()
        for path in new:
            assert known[path].id > self.last_id  # ids are never used again
            self.model[path] = File(known[path].id, found[path])
        for path, content in found.items():
            self.model[path] = File(self.model[path].id, content)
        self.last_id = max([self.last_id, *(file.id for file in self.model.values())])

    def _moves(self, found: dict[bytes, Content]) -> dict[bytes, bytes]:
        """Return the new path of each photo that is not where it was while a new file has its content."""
        new = [path for path in sorted(found) if path not in self.model and found[path] is not None]
        moves: dict[bytes, bytes] = {}
        for old, file in self.model.items():
            places = [path for path in new if found[path] == file.content and path not in moves.values()]
            if old not in found and places:
                moves[old] = places[0]
        return moves

    @rule(path=st.sampled_from(PATHS))
    def a_file_is_touched(self, path: bytes) -> None:
        if path in self.model and self.model[path].content is not None:
            self.index.commit(moved=[(self.model[path].id, FileStamp(path, 7, 8))])
            self.index.commit(moved=[(self.model[path].id, stamp(path, self.model[path].content))])
            self.model[path].missing = False

    @rule()
    def the_index_is_compacted(self) -> None:
        forgotten = [path for path, file in self.model.items() if file.missing]
        assert self.index.compact().forgotten == len(forgotten)
        for path in forgotten:
            del self.model[path]

    @rule(settings=SETTINGS)
    def settings_are_chosen(self, settings: IndexSettings) -> None:
        self.index.set_settings(settings)
        self.settings = settings

    @rule()
    def the_search_file_is_written(self) -> None:
        self.index.save_search_file()

    @rule()
    def the_writer_is_closed_and_opened_again(self) -> None:
        self.index.close()
        self.index = ImageIndex.open(self.folder, writable=True)

    @rule()
    def the_reader_is_closed_and_opened_again(self) -> None:
        self.reader.close()
        self.reader = ImageIndex.open(self.folder)

    @invariant()
    def everybody_sees_the_model(self) -> None:
        if not hasattr(self, "index"):
            return
        self.reader.refresh()
        contents = {path: file.content for path, file in self.model.items() if not file.missing and file.content}
        states = {
            path: (file.id, "missing" if file.missing else "indexed" if file.content else "skipped")
            for path, file in self.model.items()
        }
        for index in (self.index, self.reader):
            assert_contents(index, contents)
            assert {found.path: (found.id, found.state) for found in index.photos()} == states
            assert {path: file.stamp for path, file in index.known().items()} == {
                path: stamp(path, file.content) for path, file in self.model.items()
            }
            assert index.settings == self.settings
            assert index.verify() == []

    @invariant()
    def content_is_found_wherever_it_is(self) -> None:
        for content in {file.content for file in self.model.values() if file.content}:
            places = {path for path, file in self.model.items() if file.content == content}
            assert {found.path for found in self.reader.with_content(photo(*content).content_hash)} == places


TestLibrary = Library.TestCase
TestLibrary.settings = hypothesis.settings(max_examples=30, stateful_step_count=20, deadline=None)
