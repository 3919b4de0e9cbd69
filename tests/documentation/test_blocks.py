"""Blocks of the pages: each says what it is, and only blocks that need what no test has are left out."""

import re
from pathlib import Path

import pytest

from tests.documentation.pages import COMMANDS, NEEDS, PAGES, blocks, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_its_language(page: Path) -> None:
    assert not [str(block) for block in blocks(page) if not re.fullmatch(r"[a-z]+", block.language)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_block_is_left_out_only_for_a_need_of_the_list_and_says_so_on_its_first_line(page: Path) -> None:
    for block in blocks(page):
        assert block.needs is None or (block.needs in NEEDS and block.language in COMMANDS), block
        assert "# needs:" not in "\n".join(block.lines[1:]), block


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_command_hides_in_a_block_of_another_language(page: Path) -> None:
    typed = re.compile(r"(?:mocosearch|python3?|pip|sudo|systemctl|docker|ssh) [\w./-]")
    for block in blocks(page):
        assert block.language in COMMANDS or not any(map(typed.match, block.lines)), block


def test_blocks_are_read_with_their_lines_and_needs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```sh\necho `x`\n```\n\n- b\n\n  ```json\n  {}\n  ```\n\n```sh\nssh b    # needs: network, b\n```\n"
    )
    first, second, third = blocks(page)
    assert (first.line, first.language, first.lines, first.needs, first.runs) == (3, "sh", ("echo `x`",), None, True)
    assert (second.language, second.runs) == ("json", False)
    assert (third.needs, third.runs) == ("network", False)


def test_a_block_without_an_end_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho\n")
    with pytest.raises(AssertionError, match="the block does not end"):
        blocks(page)
