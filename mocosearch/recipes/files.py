"""Recipe files: one YAML file a recipe in configs/, `key=value` overrides, and what is wrong said in one line."""

import difflib
import reprlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from mocosearch.errors import BadRecipe
from mocosearch.recipes.schema import MethodSection, Recipe

_METHODS: dict[str, type[BaseModel]] = {
    section.model_fields["name"].annotation.__args__[0]: section for section in MethodSection.__args__
}
# what the parser raises: for a text, and for one that looks like a number, a date or a tag and is none
_NOT_YAML = (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


class _Brief(reprlib.Repr):
    def repr_int(self, number: int, level: int) -> str:  # Python refuses to write very large ones
        return super().repr_int(number, level) if number.bit_length() < 1000 else "a number with hundreds of digits"


_brief = _Brief().repr


def recipe_folder() -> Path:
    """Return the folder of recipe files: configs/ of the checkout if this is one, else the copy in the package."""
    package = Path(__file__).parents[1]
    checkout = package.parent / "configs"
    return checkout if (package.parent / "pyproject.toml").is_file() and checkout.is_dir() else package / "configs"


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with mocosearch."""
    return sorted(path.stem for path in recipe_folder().glob("*.yaml"))


def recipe_text(name: str) -> str:
    """Return the text of the recipe NAME, or of a YAML file; BadRecipe for an unknown one."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else recipe_folder() / f"{name}.yaml"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadRecipe(
            f"No recipe '{name}'{_nearest(name, recipe_names())}; known: {', '.join(recipe_names())}."
        ) from None


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read the recipe NAME, or a YAML file, and apply `section.key=value` overrides.

    Raises BadRecipe for an unknown name or key (with the nearest known one) and for a value that does not fit.
    """
    try:
        content = yaml.safe_load(recipe_text(name))
    except _NOT_YAML as error:
        raise BadRecipe(f"The recipe {name} is not YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(content, dict):
        raise BadRecipe(f"The recipe {name} has no sections: expected sections such as 'backbone:' and 'method:'.")
    for override in overrides:
        _apply(content, override)
    return validate_recipe(content)


def validate_recipe(content: dict[str, Any]) -> Recipe:
    """Turn nested dictionaries into a Recipe, or say in one line what is wrong."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        # pydantic puts the method's name behind "method" as well
        key = ".".join(str(part) for part in problem["loc"] if part not in _METHODS)
        if problem["type"] == "extra_forbidden":
            raise _unknown(key, list(known_keys(content))) from None
        if problem["type"] == "missing":
            raise BadRecipe(
                f"The recipe lacks '{key}'; `mocosearch train --recipe NAME` starts from a whole one."
            ) from None
        raise BadRecipe(
            f"Recipe key '{key}': {problem['msg'][0].lower()}{problem['msg'][1:]}, not {_brief(problem['input'])}."
        ) from None


def known_keys(content: dict[str, Any]) -> Iterator[str]:
    """Yield every key that a recipe with this method can have, in dotted form."""
    method = content.get("method")
    name = method.get("name") if isinstance(method, dict) else None
    yield from _keys(Recipe, "", _METHODS.get(name if isinstance(name, str) else "moco", _METHODS["moco"]))


def _keys(section: type[BaseModel], prefix: str, method: type[BaseModel]) -> Iterator[str]:
    for name, field in section.model_fields.items():
        kind = method if name == "method" else field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _keys(kind, f"{prefix}{name}.", method)
        else:
            yield f"{prefix}{name}"


def _apply(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise BadRecipe(f"{_brief(override)} is not of the form key=value, such as optimizer.lr=0.03.")
    known = list(known_keys(content))
    if key not in known:
        raise _unknown(key, known)
    try:
        value = yaml.safe_load(text)
    except _NOT_YAML:
        raise BadRecipe(f"The value of {_brief(override)} is not YAML, such as 0.03, true or [0.2, 1.0].") from None
    *sections, last = key.split(".")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise BadRecipe(f"Recipe key '{section}': input should be a section with keys, not {_brief(content)}.")
    content[last] = value


def _unknown(key: str, known: list[str]) -> BadRecipe:
    return BadRecipe(f"Unknown recipe key '{key}'{_nearest(key, known)}: `mocosearch recipes show NAME` has them all.")


def _nearest(name: str, known: list[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or [
        key for key in known if key.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]
    ]
    return f" (did you mean '{matches[0]}'?)" if matches else ""
