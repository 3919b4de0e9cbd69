"""What each study varies: cells, each the baseline recipe but for one change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mocosearch.recipes import Recipe, load_recipe, validate_recipe
from mocosearch.training.build import negatives

BASELINE = "baseline"
MOMENTA = (0.0, 0.9, 0.99, 0.999, 0.9999)
TEMPERATURES = (0.07, 0.1, 0.2, 0.3, 0.5)
_QUEUE_STEP = 4  # from one queue length to the next


@dataclass(frozen=True)
class Cell:
    """One run of a sweep; cells with the same recipe have the same name, and are trained once."""

    name: str  # of its folder
    recipe: Recipe


@dataclass(frozen=True)
class Study:
    """One comparison: what is varied, and the cell of each setting."""

    name: str
    axis: str  # what is varied
    cells: tuple[tuple[str, Cell], ...]  # (setting, cell)
    paper: str  # what the papers found, on ImageNet with 200 epochs


@dataclass(frozen=True)
class Baseline:
    """The recipe that every cell departs from, fitted to `photos` images."""

    recipe: Recipe
    photos: int

    def repeats(self, seeds: int) -> list[Cell]:
        """Return the baseline from `seeds` different seeds, its own first."""
        return [self.cell({"seed": self.recipe.seed + number}) for number in range(seeds)]

    def cell(self, changes: Mapping[str, Any]) -> Cell:
        """Return the baseline with whole sections or `section.key`s replaced, named after what is different."""
        content = self.recipe.model_dump(mode="json")
        for key, value in changes.items():
            *sections, last = key.split(".")
            place = content
            for section in sections:
                place = place[section]
            place[last] = value
        recipe = validate_recipe(content)
        return Cell(_name(self.recipe, recipe), recipe)


def _name(baseline: Recipe, recipe: Recipe) -> str:
    before, after = (_flat(one.model_dump(mode="json")) for one in (baseline, recipe))
    if before == after:
        return BASELINE
    if before["method.name"] != after["method.name"]:
        return "-".join(str(after[key]) for key in ("method.name", "method.negatives") if key in after)
    return ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in after.items() if before[key] != value)


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def queue_lengths(baseline: Baseline) -> list[int]:
    """Return K from the batch on, four times more each, up to what the collection allows, and the baseline's."""
    batch = baseline.recipe.batch
    lengths = {negatives(baseline.recipe)}
    length = batch
    while length <= baseline.photos - batch:
        lengths.add(length)
        length *= _QUEUE_STEP
    return sorted(lengths)


def _queue(baseline: Baseline) -> Study:
    cells = tuple((f"{length:,}", baseline.cell({"method.queue": length})) for length in queue_lengths(baseline))
    return Study("queue", "length K of the queue", cells, "accuracy rises with K, from 256 to 65,536 (figure 3)")


def _momentum(baseline: Baseline) -> Study:
    cells = tuple((f"{m:g}", baseline.cell({"method.momentum": m})) for m in MOMENTA)
    found = "0.999 is best, 0.9 far worse, 0 (the copied encoder) fails (section 4.1)"
    return Study("momentum", "momentum m of the key encoder", cells, found)


def _temperature(baseline: Baseline) -> Study:
    cells = tuple((f"{t:g}", baseline.cell({"method.temperature": t})) for t in TEMPERATURES)
    return Study("temperature", "temperature T", cells, "0.2 is best with an MLP head, 0.07 worst (MoCo v2, section 3)")


def _dictionary(baseline: Baseline) -> Study:
    """The three dictionaries, those of a free size at the size of the batch and at the baseline's K."""
    shared = baseline.recipe.method.model_dump(include={"head", "feature_dim", "temperature", "batch_norm_groups"})
    bank, end_to_end = load_recipe("memory_bank").method, load_recipe("end_to_end").method
    cells = []
    for length in dict.fromkeys((baseline.recipe.batch, negatives(baseline.recipe))):
        section = bank.model_dump() | shared | {"negatives": length}
        cells.append((f"queue, K {length:,}", baseline.cell({"method.queue": length})))
        cells.append((f"memory bank, K {length:,}", baseline.cell({"method": section})))
    within = baseline.cell({"method": end_to_end.model_dump() | shared})
    cells.insert(2, (f"end-to-end, K {baseline.recipe.batch - 1:,}", within))
    found = "the memory bank lies below MoCo at equal K; end-to-end matches MoCo where its batch fits (figure 3)"
    return Study("dictionary", "dictionary", tuple(cells), found)


def _recipe(baseline: Baseline) -> Study:
    """From MoCo v1 to v2, one change at a time, at the sizes and with the optimizer of the baseline."""
    first, second = load_recipe("moco_v1"), load_recipe("moco_v2")
    own = baseline.recipe

    def views(of: Recipe) -> dict[str, Any]:
        return of.views.model_dump(mode="json") | {"crop": own.views.crop, "scale": own.views.scale}

    def schedule(of: Recipe) -> dict[str, Any]:
        taken = of.schedule.model_dump(mode="json", include={"shape", "milestones"})
        return own.schedule.model_dump(mode="json") | taken

    changes: dict[str, Any] = {
        "method.head": first.method.head,
        "method.temperature": first.method.temperature,
        "views": views(first),
        "schedule": schedule(first),
    }
    names = ["v1", "+ MLP head (T 0.2)", "+ augmentation", "+ cosine = v2"]
    steps: list[dict[str, Any]] = [
        {},
        {"method.head": second.method.head, "method.temperature": second.method.temperature},
        {"views": views(second)},
        {"schedule": schedule(second)},
    ]
    cells: list[tuple[str, Cell]] = []
    for name, step in zip(names, steps, strict=True):
        changes |= step
        cells.append((name, Cell(f"recipe-{len(cells)}", baseline.cell(changes).recipe)))
    found = "60.6, 66.2 with the MLP head, 67.3 with the augmentation too, 67.5 with cosine (MoCo v2, table 1)"
    return Study("recipe", "from MoCo v1 to v2", tuple(cells), found)


STUDIES: Mapping[str, Callable[[Baseline], Study]] = {
    "queue": _queue,
    "momentum": _momentum,
    "temperature": _temperature,
    "dictionary": _dictionary,
    "recipe": _recipe,
}
