"""Every command of README.md and of docs/ runs as it is printed, unless its block says what it needs."""

from pathlib import Path

import pytest

from tests.documentation.pages import PAGES, ROOT, blocks, name
from tests.documentation.shell import run_page, script
from tests.documentation.world import copy_world, make_world

# Tests that run a page and look at what it gives as well.
OF_THEIR_OWN = {
    "docs/api.md": "tests/app/test_api.py",
    "docs/evaluation.md": "tests/cli/test_eval_page.py",
    "docs/python.md": "tests/test_python_page.py",
}
RUN_HERE = [page for page in PAGES if name(page) not in OF_THEIR_OWN and any(block.runs for block in blocks(page))]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return make_world(tmp_path_factory.mktemp("made"), monkeypatch)


@pytest.mark.parametrize("page", RUN_HERE, ids=name)
def test_every_command_of_a_page_runs(page: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [block for block in blocks(page) if block.runs]
    told = run_page(page, copy_world(world, page, tmp_path, monkeypatch))
    for block in running:
        inside = range(block.line, block.line + len(block.lines) + 1)  # Python is run from the opening fence on
        assert any(f"{name(page)}:{line}: " in told for line in inside), block


def test_pages_with_a_test_of_their_own_are_run_by_it() -> None:
    for page, test in OF_THEIR_OWN.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
        assert ROOT / page in PAGES


@pytest.fixture
def broken_page(tmp_path: Path) -> Path:
    page = tmp_path / "broken.md"
    page.write_text("# A page\n\n```sh\necho one\n```\n\nText.\n\n```sh\nls nowhere\necho two\n```\n")
    return page


def test_a_command_that_fails_is_named_by_page_and_line_with_what_it_said(broken_page: Path, tmp_path: Path) -> None:
    (tmp_path / "sandbox" / "world").mkdir(parents=True)
    with pytest.raises(AssertionError) as failed:
        run_page(broken_page, tmp_path / "sandbox" / "world")
    *_, place, said = str(failed.value).partition("\nassert")[0].strip().splitlines()
    assert place.endswith("/broken.md:10: ls nowhere")
    assert "nowhere" in said
    assert "two" not in str(failed.value)


def test_the_script_of_a_page_counts_lines_as_the_page_does(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# T\n\n```python\nprint(1)\n```\n\n```sh\n# needs: gpus\nfirst\n```\n```sh\nsecond\n```\n")
    assert script(page).splitlines()[1:] == [
        "", "python - <<'```'", "print(1)", "```", "", "", "", "", "", "", "second", "",
    ]  # fmt: skip
