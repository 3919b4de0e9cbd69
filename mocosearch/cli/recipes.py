"""`mocosearch recipes`."""

import json

import click


@click.group("recipes", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object of names and what they are for.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the recipes for `train`, and what each is for.

    docs/recipes.md tells of every key, and which recipe to take.
    """
    if context.invoked_subcommand is not None:
        return
    from mocosearch.recipes import recipe_names, recipe_text

    purposes = {name: recipe_text(name).partition("\n")[0].removeprefix("# ") for name in recipe_names()}
    if as_json:
        click.echo(json.dumps(purposes, indent=2))
        return
    width = max(map(len, purposes))
    for name, purpose in purposes.items():
        click.echo(f"{name:{width}}  {purpose}")


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Print the recipe NAME: YAML, for `train --recipe FILE`."""
    from mocosearch.recipes import recipe_text

    click.echo(recipe_text(name), nl=False)
