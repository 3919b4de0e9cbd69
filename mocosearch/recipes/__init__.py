"""Recipes: what a run trains and how."""

from mocosearch.recipes.files import known_keys, load_recipe, recipe_folder, recipe_names, recipe_text, validate_recipe
from mocosearch.recipes.schema import (
    BackboneSection,
    EndToEndSection,
    MemoryBankSection,
    MethodSection,
    MocoSection,
    Recipe,
    ViewsSection,
)

__all__ = [
    "BackboneSection",
    "EndToEndSection",
    "MemoryBankSection",
    "MethodSection",
    "MocoSection",
    "Recipe",
    "ViewsSection",
    "known_keys",
    "load_recipe",
    "recipe_folder",
    "recipe_names",
    "recipe_text",
    "validate_recipe",
]
