"""The runs behind docs/evidence.md, on a few tiles: each kind trains, goes on after a stop, and is told in tables."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import sleep

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from bench.evidence import __main__ as evidence
from bench.evidence import curves, peers, tables
from bench.evidence.cases import Case, unpack
from bench.evidence.plan import PLAN, Planned
from bench.evidence.scores import differences, scored
from bench.evidence.timed import TimedRun
from mocosearch.demo import unpack_sample
from mocosearch.recipes import load_recipe

TINY = ("batch=8", "views.crop=16", "method.queue=16")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a eurosat.zip of 60 of the sample's tiles, one in five of the test part."""
    folder = tmp_path_factory.mktemp("data")
    tiles = sorted(unpack_sample(folder / "sample").rglob("*.jpg"))[::33]
    table = io.StringIO()
    rows = csv.writer(table)
    rows.writerow(("path", "class", "split"))
    with zipfile.ZipFile(folder / "eurosat.zip", "w") as archive:
        for number, tile in enumerate(tiles):
            path = f"{tile.parent.name}/{tile.name}"
            archive.write(tile, f"EuroSAT/{path}")
            rows.writerow((path, tile.parent.name, "train" if number % 5 else "test"))
        archive.writestr("EuroSAT/split.csv", table.getvalue())
    return folder


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Weights of the public network that nobody trained."""
    file = tmp_path_factory.mktemp("public") / "lite0.safetensors"
    save_file(timm.create_model("tf_efficientnet_lite0").state_dict(), file)
    return f"timm:tf_efficientnet_lite0={file}"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(evidence, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_photos_are_sorted_as_the_split_says(data: Path, tmp_path: Path) -> None:
    case = unpack("eurosat", data, tmp_path)
    photos = case.photos()
    assert photos.held_out is not None
    assert len(photos.paths) == 61
    assert photos.held_out.sum() == 13
    assert all(("test" in path.parts) == held for path, held in zip(photos.paths, photos.held_out, strict=True))
    before = {path: path.stat().st_mtime_ns for path in photos.paths}
    assert unpack("eurosat", data, tmp_path) == Case("eurosat", case.folder)
    assert {path: path.stat().st_mtime_ns for path in photos.paths} == before


@pytest.mark.parametrize(
    ("kind", "trial", "continued"),
    [
        ("untrained", False, False),
        ("ours", True, False),
        ("ours", False, True),
        ("lightly", False, False),
        ("supervised", False, False),
    ],
)
def test_a_run_of_each_kind_leaves_figures_with_intervals(
    kind: str, trial: bool, continued: bool, data: Path, public: str, tmp_path: Path, results: Path
) -> None:
    if kind == "lightly":
        pytest.importorskip("lightly")
    planned = Planned(
        kind, "eurosat", kind, (32,), minutes=0.02, recipe="demo", changes=TINY, continued=continued, trial=trial
    )
    evidence.work_through(planned, unpack("eurosat", data, tmp_path), tmp_path, public)
    told = json.loads((results / "eurosat" / f"{kind}.json").read_text())
    figures = told["figures by pixels"]["32"]
    assert {"linear accuracy", "kNN accuracy", "precision@10", "mAP"} <= figures.keys()
    for figure in figures.values():
        assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
    if kind != "untrained":
        assert told["run"]["steps"] >= 1
        assert trial or told["curve"][-1][0] > 0


def test_what_lightly_had_queued_is_there_again_after_a_stop(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("lightly")
    planned = Planned("lightly", "eurosat", "lightly", (32,), minutes=0.02, recipe="demo", changes=TINY)
    case = unpack("eurosat", data, tmp_path)
    peers.train(planned, case, case.test, tmp_path / "runs")
    saved = torch.load(tmp_path / "runs" / "lightly" / "checkpoint.pt", weights_only=True)["queue"]
    queue = peers.lightly(planned, case, tmp_path).parts["queue"]
    assert not torch.equal(queue.state_dict()["bank"], saved["bank"])
    queue.load_state_dict(saved)
    torch.testing.assert_close(queue.state_dict(), saved)


class Killed(Exception):
    """What ends a run in the middle."""


def test_a_stopped_loop_goes_on_from_what_it_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.evidence.timed.SAVE_SECONDS", 0.0)
    started: list[int] = []

    def run(stop_after: int | None) -> TimedRun[int]:
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=1)
        taken: list[int] = []

        def step(batch: int) -> Tensor:
            if len(taken) == stop_after:
                raise Killed
            taken.append(batch)
            sleep(0.05)
            with torch.no_grad():
                weight.add_(1)
            return weight.detach().sum()

        def batches(first: int) -> Iterator[int]:
            started.append(first)
            yield from iter(int, 1)

        timed = TimedRun(
            tmp_path / "checkpoint.pt",
            0.01,
            {"model": torch.nn.ParameterList([weight]), "optimizer": optimizer},
            optimizer,
            1.0,
            step,
            look=lambda: 0.5,
        )
        timed.run(batches)
        assert weight.item() == timed.steps
        return timed

    with pytest.raises(Killed):
        run(stop_after=3)
    finished = run(stop_after=None)
    assert started == [0, 3]
    assert finished.spent >= 0.6
    assert [point[0] for point in finished.curve] == sorted(point[0] for point in finished.curve)


def test_tables_tell_every_run_that_is_done_and_how_far_apart_two_are(
    data: Path,
    public: str,
    tmp_path: Path,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        Planned("plain", "eurosat", "untrained", (32,), recipe="demo"),
        Planned("other", "eurosat", "untrained", (32,), recipe="demo", continued=True),
    ]
    for planned in runs:
        evidence.work_through(planned, unpack("eurosat", data, tmp_path), tmp_path, public)
    monkeypatch.setattr(tables, "PLAN", (*runs, Planned("missing", "eurosat", "ours", (32,))))
    monkeypatch.setattr(tables, "COMPARED", (tuple(runs),))
    tables.main()
    shown = capsys.readouterr().out
    assert "| plain" in shown
    assert "missing" not in shown
    (ahead,) = (line for line in shown.splitlines() if line.startswith("| plain") and "other" in line)
    plain, other = (tables.result(planned)["figures by pixels"]["32"]["mAP"]["value"] for planned in runs)
    assert plain != other
    assert float(ahead.split("|")[7].split()[0]) == pytest.approx(100 * (plain - other), abs=0.1)


@pytest.mark.parametrize(
    "planned", [planned for planned in PLAN if evidence.result_file(planned).exists()], ids=lambda p: p.name
)
def test_figures_that_were_kept_are_of_the_run_that_is_planned(planned: Planned) -> None:
    kept = json.loads(evidence.result_file(planned).read_text())["run"]
    assert kept | json.loads(json.dumps(asdict(planned))) == kept


def test_figures_are_kept_of_planned_runs_alone() -> None:
    planned = {evidence.result_file(planned) for planned in PLAN}
    assert set(evidence.RESULTS.rglob("*.json")) <= planned


def test_curves_of_the_runs_that_have_one_are_drawn(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, untrained = (Planned(name, "eurosat", "ours", (32,)) for name in ("trained", "untrained"))
    for planned, curve in ((trained, [(0.0, 0.2), (1.5, 0.7)]), (untrained, [])):
        file = evidence.result_file(planned)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"curve": curve}))
    monkeypatch.setattr(curves, "PLAN", (trained, untrained, Planned("missing", "grocery", "ours", (32,))))
    monkeypatch.setattr("sys.argv", ["curves", str(tmp_path / "drawn")])
    curves.main()
    (drawn,) = (tmp_path / "drawn").iterdir()
    assert drawn.name == "eurosat.png"
    with Image.open(drawn) as picture:
        assert picture.width == 960


def test_differences_are_paired_by_photo() -> None:
    ones = {"mAP": torch.linspace(0.2, 0.8, 50).double().numpy()}
    others = {"mAP": ones["mAP"] - 0.1}
    told = differences(ones, others)["mAP"]
    assert told["value"] == pytest.approx(0.1)
    assert 0.1 - told["low"] < 0.02 < scored(ones)["mAP"]["value"] - scored(ones)["mAP"]["low"]


def test_every_planned_recipe_is_sound_and_every_name_is_its_own() -> None:
    for planned in PLAN:
        load_recipe(planned.recipe, planned.overrides)
    names = [(planned.case, planned.name) for planned in PLAN]
    assert len(set(names)) == len(names)
