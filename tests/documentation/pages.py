"""README.md and docs/*.md as text: their fenced blocks, which of those are commands, and what is written as code."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMANDS = ("sh", "python")  # languages of blocks that people type or run
# What a block may say that it needs, and is not run by tests for: a closed list.
NEEDS = {
    "gpus": "several of them, on several machines",
    "slurm": "a cluster",
    "network": "packages, weights or photos to download, or another machine",
    "systemd": "that of a person who is logged in, which would keep a timer",
}
_FENCE = re.compile(r"^( *)```(.*)$")
_NEED = re.compile(r"#\s*needs:\s*([\w-]+)")
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its opening fence, counted from 1."""

    page: Path
    line: int
    language: str
    lines: tuple[str, ...]

    @property
    def needs(self) -> str | None:
        """What its first line says that it needs: `# needs: network`, also behind a command."""
        found = _NEED.search(self.lines[0]) if self.lines else None
        return found and found[1]

    @property
    def runs(self) -> bool:
        """Whether a test can run it."""
        return self.language in COMMANDS and self.needs is None

    def __str__(self) -> str:
        return f"{name(self.page)}:{self.line}"


def name(page: Path) -> str:
    """The page's path in the checkout."""
    return os.path.relpath(page, ROOT)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order; an AssertionError for one that does not end."""
    found, begun, language, inside = [], 0, "", list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if not fence:
            inside.append(line)
        elif not begun:
            begun, language, inside = number, fence[2].strip(), []
        else:
            found.append(Block(page, begun, language, tuple(inside)))
            begun = 0
    assert not begun, f"{name(page)}:{begun}: the block does not end"
    return found


def spans(page: Path) -> Iterator[str]:
    """What is written as code in the prose of a page."""
    fenced = {line for block in blocks(page) for line in range(block.line, block.line + len(block.lines) + 2)}
    lines = page.read_text(encoding="utf-8").splitlines()
    prose = "\n".join("" if number in fenced else line for number, line in enumerate(lines, start=1))
    for _, span in _SPAN.findall(prose):
        yield " ".join(span.split())


def lines(page: Path) -> Iterator[str]:
    """The lines of its blocks, but for Python, joined where they end in a backslash."""
    for block in blocks(page):
        if block.language != "python":
            yield from "\n".join(block.lines).replace("\\\n", " ").splitlines()
