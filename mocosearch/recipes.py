"""Recipes: what a run trains and how, typed, one YAML file each in configs/."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, ValidationError, model_validator

from mocosearch.errors import BadRecipe

Probability = Annotated[float, Field(ge=0, le=1)]
Strength = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Length = Annotated[int, Field(ge=1)]


def _rising(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] > pair[1]:
        raise ValueError("the first number should not be above the second")
    return pair


class Section(BaseModel):
    """A part of a recipe: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BackboneSection(Section):
    """The network whose output is searched."""

    architecture: str
    small_stem: bool = False


class MocoSection(Section):
    """Momentum contrast; `queue: auto` takes a quarter of the collection, at most 65536 keys."""

    name: Literal["moco"]
    head: Literal["linear", "mlp"]
    feature_dim: int = Field(ge=1)
    queue: Length | Literal["auto"]
    momentum: Probability
    temperature: float = Field(gt=0)
    batch_norm_groups: int = Field(ge=1)


class JitterSection(Section):
    """Color jitter as torchvision's ColorJitter understands it, applied with probability `p`."""

    brightness: Strength
    contrast: Strength
    saturation: Strength
    hue: float = Field(ge=0, le=0.5)
    p: Probability


class BlurSection(Section):
    """Gaussian blur with a standard deviation drawn from `sigma`, in pixels of the crop."""

    sigma: Annotated[tuple[PositiveFloat, PositiveFloat], AfterValidator(_rising)]
    p: Probability


class ViewsSection(Section):
    """The augmentation that makes two views of an image; `order` is the order of application after the crop."""

    crop: int = Field(ge=8)
    scale: Annotated[tuple[Share, Share], AfterValidator(_rising)]
    order: tuple[Literal["color_jitter", "grayscale", "blur"], ...]
    color_jitter: JitterSection
    grayscale: Probability
    blur: BlurSection
    flip: Probability


class OptimizerSection(Section):
    """The optimizer; `lr` is for a global batch of `lr_batch` and scales linearly with the batch."""

    name: Literal["sgd", "adamw"]
    lr: float = Field(gt=0)
    lr_batch: int = Field(ge=1)
    momentum: Probability = 0.9
    weight_decay: Strength


class ScheduleSection(Section):
    """The learning rate over the run: cosine or x0.1 at `milestones` (shares of the run), per epoch or per step."""

    epochs: int = Field(ge=1)
    shape: Literal["cosine", "steps"]
    milestones: tuple[Probability, ...] = ()
    per: Literal["epoch", "step"]


class EncoderInputSection(Section):
    """How the finished encoder sees a photo: short side resized to `resize`, then a center crop of `crop` pixels."""

    resize: int = Field(ge=8)
    crop: int = Field(ge=8)

    @model_validator(mode="after")
    def _crop_fits(self) -> Self:
        if self.crop > self.resize:
            raise ValueError(f"the crop of {self.crop} pixels should not be larger than the {self.resize} resized to")
        return self


class Recipe(Section):
    """A complete recipe."""

    backbone: BackboneSection
    method: MocoSection
    views: ViewsSection
    optimizer: OptimizerSection
    schedule: ScheduleSection
    batch: int = Field(ge=2)
    seed: int = 0
    encoder_input: EncoderInputSection


def recipe_folder() -> Path:
    """Return the folder of recipe files: configs/ of the checkout if this is one, else the copy in the package."""
    package = Path(__file__).parent
    checkout = package.parent / "configs"
    return checkout if (package.parent / "pyproject.toml").is_file() and checkout.is_dir() else package / "configs"


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with mocosearch."""
    return sorted(path.stem for path in recipe_folder().glob("*.yaml"))


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read the recipe NAME, or a YAML file, and apply `section.key=value` overrides.

    Raises BadRecipe for an unknown name or key (with the nearest known one) and for a value that does not fit.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else recipe_folder() / f"{name}.yaml"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise BadRecipe(
            f"No recipe '{name}'{_nearest(name, recipe_names())}; known: {', '.join(recipe_names())}."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(content, dict):
        raise BadRecipe(f"{path} holds no recipe: expected sections such as 'backbone:' and 'method:'.")
    for override in overrides:
        _apply(content, override)
    return validate_recipe(content)


def validate_recipe(content: dict[str, Any]) -> Recipe:
    """Turn nested dictionaries into a Recipe, or say in one line what is wrong."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            raise BadRecipe(f"Unknown recipe key '{key}'{_nearest(key, list(known_keys()))}.") from None
        if problem["type"] == "missing":
            raise BadRecipe(
                f"The recipe lacks '{key}'; `mocosearch train --recipe NAME` starts from a whole one."
            ) from None
        raise BadRecipe(
            f"Recipe key '{key}': {problem['msg'][0].lower()}{problem['msg'][1:]}, not {problem['input']!r}."
        ) from None


def known_keys(section: type[BaseModel] = Recipe, prefix: str = "") -> Iterator[str]:
    """Yield every key of a recipe in dotted form."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from known_keys(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _apply(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise BadRecipe(f"'{override}' is not of the form key=value, such as optimizer.lr=0.03.")
    if key not in set(known_keys()):
        raise BadRecipe(f"Unknown recipe key '{key}'{_nearest(key, list(known_keys()))}.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadRecipe(f"The value of '{override}' is not YAML, such as 0.03, true or [0.2, 1.0].") from None
    *sections, last = key.split(".")
    for section in sections:
        content = content.setdefault(section, {})
    content[last] = value


def _nearest(name: str, known: list[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or [
        key for key in known if key.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]
    ]
    return f" (did you mean '{matches[0]}'?)" if matches else ""
