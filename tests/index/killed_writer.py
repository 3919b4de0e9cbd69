"""A writer that is there to be killed: a fixed sequence of steps, one commit each: `change` tells what is stored.

As a program, `killed_writer.py FOLDER`, it takes up the sequence in a new process for every line on stdin. That one
says its process id, then the number of each step that is done, and is killed by whoever reads it; "end" follows.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from generated_photos import batch, photo

from mocosearch_index.image_index import ImageIndex

SIZE = 20  # photos that come with a step


def do(index: ImageIndex, step: int) -> None:
    """Do step 1, 2, ...: photos come, change and go, and the index is compacted; the search file is written between."""
    kind = step % 4
    if kind == 1:
        index.commit(batch(step, SIZE))
    elif kind == 2:
        index.commit([photo(path, step) for path in _changed(step)])
        index.save_search_file()
    elif kind == 3:
        known = index.known()
        index.commit(missing=[known[path].id for path in _gone(step)])
    else:
        index.compact()


def stored_after(step: int) -> dict[bytes, int]:
    """Return the version of each photo that is indexed after this step."""
    versions: dict[bytes, int] = {}
    for number in range(1, step + 1):
        if number % 4 == 1:
            versions |= {found.stamp.path: 0 for found in batch(number, SIZE)}
        elif number % 4 == 2:
            versions |= dict.fromkeys(_changed(number), number)
        elif number % 4 == 3:
            for path in _gone(number):
                del versions[path]
    return versions


def _changed(step: int) -> list[bytes]:
    """Return photos of the step before that `step` changes."""
    return [b"%d/%d.jpg" % (step - 1, place) for place in range(0, SIZE, 3)]


def _gone(step: int) -> Iterator[bytes]:
    """Yield photos of two steps before that `step` finds gone: nearly all, so that the index stays small."""
    return (b"%d/%d.jpg" % (step - 2, place) for place in range(2, SIZE))


def _work(folder: Path) -> None:
    os.write(1, b"%d\n" % os.getpid())
    with ImageIndex.open(folder, writable=True) as index:
        step = index.change
        while True:
            step += 1
            do(index, step)
            os.write(1, b"%d\n" % step)


if __name__ == "__main__":
    for _ in sys.stdin:
        child = os.fork()  # cheaper than a new interpreter that imports all again; no thread has been started yet
        if child == 0:
            _work(Path(sys.argv[1]))
        os.waitpid(child, 0)
        os.write(1, b"end\n")
