import json

import pytest
import yaml
from click.testing import CliRunner

from mocosearch.cli.main import cli
from mocosearch.errors import BadRecipe
from mocosearch.recipes import recipe_names, validate_recipe


def test_every_recipe_is_listed_with_its_purpose() -> None:
    listed = json.loads(CliRunner().invoke(cli, ["recipes", "--json"]).output)
    assert set(listed) == set(recipe_names())
    assert {"moco_v1", "moco_v2", "moco_v2_800ep", "moco_v2_small", "end_to_end", "memory_bank"} <= set(listed)
    lines = CliRunner().invoke(cli, ["recipes"]).output.splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [[name, purpose] for name, purpose in listed.items()]


@pytest.mark.parametrize("name", recipe_names())
def test_a_shown_recipe_is_complete_and_explained(name: str) -> None:
    text = CliRunner().invoke(cli, ["recipes", "show", name]).output
    assert text.startswith("# ")
    assert validate_recipe(yaml.safe_load(text)).batch > 0


def test_an_unknown_recipe_cannot_be_shown() -> None:
    result = CliRunner().invoke(cli, ["recipes", "show", "moco_v9"])
    assert isinstance(result.exception, BadRecipe)
    assert "known: " in str(result.exception)
