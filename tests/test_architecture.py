"""The page that describes the house names no room that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_module_that_the_architecture_page_names_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/]+\.py\b", page))
    modules = {
        path.relative_to(ROOT).as_posix()
        for room in ("index", "mocosearch", "app")
        for path in (ROOT / room).rglob("*.py")
    }
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert len(named) > 30
    assert not {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in modules | tests)}
