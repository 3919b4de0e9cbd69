from pathlib import Path

import pytest

from mocosearch.errors import Interrupted
from mocosearch.recipes import Recipe
from mocosearch.training.records import read_rows
from mocosearch.training.run_folder import RunFolder, latest_unfinished, make_unused
from tests.training.runs import make, train


def test_the_newest_run_that_can_go_on_is_found_past_others(photos: Path, tiny_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(make(photos, tiny_recipe, tmp_path / "good"), stop_after=1)
    make(photos, tiny_recipe, tmp_path / "never began")
    (tmp_path / "damaged" / "checkpoints").mkdir(parents=True)
    (tmp_path / "damaged" / "checkpoints" / "step-00000001.pt").touch()
    (tmp_path / "damaged" / "run.json").write_text("{")
    assert latest_unfinished(tmp_path, photos) == tmp_path / "good"
    assert latest_unfinished(tmp_path, None) == tmp_path / "good"


def test_a_folder_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    names = [make_unused(tmp_path / "runs" / "demo").name for _ in range(3)]
    assert names == ["demo", "demo-2", "demo-3"]


@pytest.mark.parametrize("damage", ["null", "3", '{"loss": 1}', '{"step": 2, "lo'])
def test_a_damaged_line_ends_what_is_read_of_the_metrics(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{damage}\n{{"step": 3}}\n')
    assert read_rows(path) == [{"step": 1}]


@pytest.mark.parametrize("written", range(4))
def test_a_folder_that_a_full_disk_left_half_made_can_be_taken_again(
    photos: Path, tiny_recipe: Recipe, tmp_path: Path, written: int
) -> None:
    folder = tmp_path / "run"
    make(photos, tiny_recipe, folder)
    for name in ["run.json", "recipe.yaml", "skipped.jsonl", "photos.jsonl"][: 4 - written]:
        (folder / name).unlink()
    (folder / ".photos.jsonl.0123abcd.partial").touch()
    assert RunFolder(folder).never_began()
    (folder / "letter.txt").touch()
    assert not RunFolder(folder).never_began()


def test_what_others_wrote_is_no_run_that_never_began(tmp_path: Path) -> None:
    assert not RunFolder(tmp_path).never_began()
    assert not RunFolder(tmp_path / "nowhere").never_began()
    (tmp_path / "recipe.yaml").write_text("mine")
    assert not RunFolder(tmp_path).never_began()
    assert not RunFolder(tmp_path / "recipe.yaml").never_began()
