"""The commands as click knows them."""

import click

from mocosearch.cli.main import cli


def all_commands() -> dict[str, click.Command]:
    """Every command and subcommand by the words that call it, as `eval knn`."""
    found: dict[str, click.Command] = {}

    def add(words: str, command: click.Command) -> None:
        found[words] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                sub = command.get_command(context, name)
                assert sub is not None, f"{words} lists {name}, which does not exist"
                add(f"{words} {name}".strip(), sub)

    add("", cli)
    del found[""]
    return found


def options_of(command: click.Command) -> set[str]:
    """All spellings of its options, as `--json`, `-k`, `--no-turned`."""
    parameters = command.get_params(click.Context(command, help_option_names=["-h", "--help"]))
    return {
        spelling
        for parameter in parameters
        if isinstance(parameter, click.Option)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }
