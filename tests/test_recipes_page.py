"""docs/recipes.md tells of every recipe and of every key that a recipe can have, and of no others."""

import re
from pathlib import Path

from mocosearch.recipes import known_keys, recipe_names

METHODS = ("moco", "end_to_end", "memory_bank")
KEYS = {key for method in METHODS for key in known_keys({"method": {"name": method}})}


def first_cells(part: str) -> set[str]:
    """What the first column of the tables below the heading `part` has as code."""
    page = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_the_page_names_every_recipe() -> None:
    assert first_cells("The recipes") == set(recipe_names())


def test_the_page_names_every_key() -> None:
    assert len(KEYS) > 30
    assert first_cells("Every key") == KEYS
