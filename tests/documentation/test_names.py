"""Pages and commands agree: what the pages call exists, and each command and option is told of on some page."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.command_tree import all_commands, options_of
from tests.documentation.pages import PAGES, lines, name, spans

TREE = all_commands()
OPTIONS = {words: options_of(command) for words, command in TREE.items()}
# Options of other programs that pages speak of and no block of theirs shows.
OF_OTHERS = {"--gpus-per-task": "srun", "--gpu-bind": "srun", "--nv": "apptainer"}
_GENERAL = {"--help", "-h", "--version", "-V"}
_ENDS = re.compile(r"^(?:&&|\|\|?|;|&|\d?>>?|<|#)")  # of a command, in a shell
_OPTION = re.compile(r"^--?[a-zA-Z0][\w-]*")


def words_of(text: str) -> list[str]:
    """The words of what is written as code, without quotes and what sentences put behind them."""
    return [word.strip("\"'()[],;") for word in text.split()]


def calls(text: str) -> Iterator[list[str]]:
    """The words behind each `mocosearch` of a text up to the end of the command."""
    words = text.split()
    for place, word in enumerate(words):
        if re.fullmatch(r"[\"'(]*(?:\S*/)?mocosearch", word):
            behind = words[place + 1 :]
            end = next((number for number, other in enumerate(behind) if _ENDS.match(other)), len(behind))
            yield words_of(" ".join(behind[:end]))


def unknown(call: list[str]) -> list[str]:
    """The commands and options of a call that do not exist."""
    words = ""
    for place, word in enumerate(call):
        if words in TREE and not isinstance(TREE[words], click.Group):
            break
        if f"{words} {word}".strip() in TREE:
            words = f"{words} {word}".strip()
        elif re.match(r"^[a-z]+$", word) and (not place or place == len(words.split())):
            return [f"{words} {word}".strip()]
        else:
            break
    options = [found[0] for word in call if (found := _OPTION.match(word))]
    if words in OPTIONS:
        known = {option for other, found in OPTIONS.items() if other.startswith(words) for option in found}
    else:
        known = _GENERAL
    return [option for option in options if option not in known]


def of_others() -> set[str]:
    """The options that the blocks of all pages give to other programs."""
    without_ours = (re.split(r"\bmocosearch\b", line)[0] for page in PAGES for line in lines(page))
    return {found[0] for line in without_ours for word in words_of(line) if (found := _OPTION.match(word))}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    commands = [text for text in spans(page) if re.match(r"(\w+=\S+ )*\S*\bmocosearch\b", text)]  # others are messages
    for text in (*lines(page), *commands):
        for call in calls(text):
            assert not unknown(call), text
    options = {*_GENERAL, *OF_OTHERS, *of_others()}.union(*OPTIONS.values())
    for text in spans(page):
        first, *_ = words_of(text) or [""]
        if first in TREE:  # as in `train --resume`
            assert not unknown(words_of(text)), text
        elif option := _OPTION.match(first):  # as in `--resume`
            assert option[0] in options, text


@pytest.fixture(scope="module")
def written() -> list[str]:
    """What all pages write as code."""
    return [text for page in PAGES for text in (*lines(page), *spans(page))]


@pytest.mark.parametrize("words", TREE)
def test_every_command_and_option_is_named_on_a_page(words: str, written: list[str]) -> None:
    named = {word.partition("=")[0] for text in written for word in words_of(text)}
    assert any(f"mocosearch {words}" in text for text in written)
    for parameter in TREE[words].params:
        if isinstance(parameter, click.Option):
            assert named & {*parameter.opts, *parameter.secondary_opts}, f"{words} {parameter.opts[0]}"


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("mocosearch index ./photos --encoder E", []),
        ("mocosearch index ./photos --k", ["--k"]),
        ("mocosearch eval --encoder E", []),
        ("mocosearch eval knn DIR --pairs a.csv", ["--pairs"]),
        ("mocosearch eval nothing", ["eval nothing"]),
        ("mocosearch nothing", ["nothing"]),
        ("MOCOSEARCH_TOKEN=x env/bin/mocosearch serve > log --that && that", []),
        ("mocosearch --version", []),
    ],
)
def test_what_does_not_exist_is_seen(call: str, wrong: list[str]) -> None:
    [words] = calls(call)
    assert unknown(words) == wrong
