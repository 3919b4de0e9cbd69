"""`mocosearch doctor`: what is installed, what the machine can do, what to repair."""

import click

_COLORS = {"ok": "green", "warning": "yellow", "broken": "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> int:
    """Check the installation: versions, devices, formats, folders.

    Exits with 1 when something is broken, with 0 when all is well or there are only warnings.
    """
    import json

    from mocosearch.doctor import examine

    checks = examine()
    statuses = {check.status for check in checks}
    worst = next(status for status in ("broken", "warning", "ok") if status in statuses)
    if as_json:
        click.echo(json.dumps({"status": worst, "checks": [check.as_dict() for check in checks]}, indent=2))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            status = click.style(f"{check.status:7}", fg=_COLORS[check.status])
            click.echo(f"{status}  {check.name:{width}}  {check.found}")
            if check.remedy:
                click.echo(f"{'':7}  {'':{width}}  -> {check.remedy}")
    return int(worst == "broken")
