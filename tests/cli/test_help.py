"""Every command explains itself, at once: help and version load none of the heavy packages."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mocosearch import __version__
from mocosearch.cli.main import COMMANDS, cli
from tests.cli.command_tree import all_commands

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "torchvision", "gradio", "faiss", "pydantic", "numpy", "PIL", "sqlite3"}
PRINT_LOADED = "import atexit, sys; atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"


def run(code: str, *arguments: str) -> tuple[str, set[str]]:
    """Run `code` with these arguments in a new Python: what it prints, and the modules it has loaded."""
    result = subprocess.run(
        [sys.executable, "-c", PRINT_LOADED + code, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, set(result.stderr.split())


AS_COMMAND = "from mocosearch.cli import main; main()"
WRONG = ("train", "photos", "--recipe", "nope")
AS_MODULE = "import runpy; runpy.run_module('mocosearch', run_name='__main__', alter_sys=True)"


def test_the_commands_are_those_that_the_readme_promises() -> None:
    assert set(COMMANDS) == {words for words in all_commands() if " " not in words}


@pytest.mark.parametrize("words", all_commands())
def test_every_command_and_option_has_help(words: str) -> None:
    command = all_commands()[words]
    assert command.help
    assert "Not written yet" not in command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{words} {parameter.opts[0]} has no help"


def test_help_fits_a_terminal_of_80_columns_and_cuts_no_sentence() -> None:
    for words, command in {"": cli, **all_commands()}.items():
        context = click.Context(command, info_name=f"mocosearch {words}", terminal_width=80)
        for line in command.get_help(context).splitlines():
            assert len(line) <= 80, line
            assert not line.endswith("...") or line.startswith("Usage:"), line


@pytest.mark.parametrize("words", ["index", "eval knn"])
def test_help_spells_the_forms_of_an_encoder_as_they_have_to_be_written(words: str) -> None:
    context = click.Context(all_commands()[words], terminal_width=80)
    assert "torchvision:NAME, timm:NAME" in context.command.get_help(context)


@pytest.mark.parametrize("words", all_commands())
def test_help_of_every_command_loads_nothing_heavy(words: str) -> None:
    out, loaded = run(AS_COMMAND, *words.split(), "--help")
    assert out.startswith(f"Usage: mocosearch {words} ")
    assert "click" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("code", [AS_COMMAND, AS_MODULE])
def test_the_overview_lists_every_command_and_loads_nothing_heavy(code: str) -> None:
    out, loaded = run(code, "--help")
    assert out.startswith("Usage: mocosearch [OPTIONS] COMMAND")
    listed = [line.split()[0] for line in out.partition("Commands:\n")[2].splitlines()]
    assert listed == list(COMMANDS)
    assert not HEAVY & loaded


def test_a_wrong_recipe_is_refused_before_torch_is_loaded() -> None:
    _, words = run(f"import contextlib\nwith contextlib.suppress(SystemExit): exec({AS_COMMAND!r})", *WRONG)
    assert "'nope';" in words
    assert not {"torch", "torchvision", "gradio", "faiss"} & words


@pytest.mark.parametrize("code", [AS_COMMAND, AS_MODULE])
def test_the_version_is_printed_and_loads_nothing_heavy(code: str) -> None:
    out, loaded = run(code, "--version")
    assert out == f"mocosearch, version {__version__}\n"
    assert not HEAVY & loaded


def test_python_m_mocosearch_is_mocosearch() -> None:
    command = [sys.executable, "-m", "mocosearch", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Usage: mocosearch [OPTIONS] COMMAND")


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_no_option_takes_for_a_number_what_is_none(number: str) -> None:
    for words, command in all_commands().items():
        options = [option for option in command.params if option.type.name.startswith("float")]
        for option in options:
            with pytest.raises(click.BadParameter):
                option.type.convert(number, option, click.Context(command, info_name=words))


@pytest.mark.parametrize("words", [words for words in all_commands() if words])
def test_the_readme_names_every_command(words: str) -> None:
    assert f"mocosearch {words}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["--help", "--version", "recipes"])
def test_output_that_has_no_place_is_one_line(arguments: str, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", AS_COMMAND, arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("The output cannot be written (No space left on device)")
