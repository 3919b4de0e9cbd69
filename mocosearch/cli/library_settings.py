"""The flags whose values a library keeps, and how they are shown."""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mocosearch_index.records import IndexSettings, SearchSettings


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the flags; it takes them on as `**flags`, which `chosen` understands."""
    options = (
        click.option(
            "--include",
            multiple=True,
            metavar="PATTERN",
            help="Take hidden, junk or otherwise named files and folders that match, as in a .gitignore; repeatable. A "
            'folder that is left out has to match itself, as .old/ does. "" takes none.',
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="PATTERN",
            help="Leave out what matches, as in a .gitignore; repeatable. A .mocosearchignore in any folder does the "
            'same. "" leaves out nothing.',
        ),
    )
    command = search_options(command)
    for option in reversed(options):
        command = option(command)
    return command


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the flags of how vectors are searched, which `chosen_search` understands."""
    options = (
        click.option(
            "--search",
            type=click.Choice(["auto", "exact", "ivf", "compressed"]),
            metavar="LEVEL",
            help="How the index is searched: exact, ivf, compressed, or auto, which goes by the number of photos.",
        ),
        click.option(
            "--dim",
            type=click.IntRange(0),
            metavar="N",
            help="Search vectors of N numbers, projected by PCA; 0: as many as the encoder gives. 256 save memory.",
        ),
        click.option(
            "--whiten/--no-whiten",
            default=None,
            help="From 50 photos on, let what many of them share count less: scores of unlike photos are then near 0. "
            "On for new libraries.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def chosen(settings: "IndexSettings", flags: dict[str, Any]) -> "IndexSettings":
    """Return `settings` with what the flags say instead."""
    from dataclasses import replace

    lists = {name: tuple(filter(None, flags[name])) for name in ("include", "exclude") if flags[name]}
    return replace(settings, search=chosen_search(settings.search, flags), **lists)


def chosen_search(search: "SearchSettings", flags: dict[str, Any]) -> "SearchSettings":
    """Return `search` with what the flags say instead."""
    from dataclasses import replace

    if flags["search"] is not None:
        search = replace(search, level=None if flags["search"] == "auto" else flags["search"])
    if flags["dim"] is not None:
        search = replace(search, dim=flags["dim"] or None)
    if flags["whiten"] is not None:
        search = replace(search, whiten=flags["whiten"])
    return search


def settings_lines(settings: "IndexSettings") -> list[str]:
    """Return a line with the flags that were given, none when none was."""
    search = settings.search
    words = [
        *([f"--search {search.level}"] if search.level else []),
        *([f"--dim {search.dim}"] if search.dim else []),
        *([] if search.whiten else ["--no-whiten"]),
        *(f"--include {shlex.quote(pattern)}" for pattern in settings.include),
        *(f"--exclude {shlex.quote(pattern)}" for pattern in settings.exclude),
    ]
    return [f"Settings {' '.join(words)}"] if words else []
