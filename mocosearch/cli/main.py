"""The `mocosearch` group: loads a command's module only when it is called, and turns typed errors into one line."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from mocosearch import __version__
from mocosearch.cli.lasting_stderr import lasting_stderr, silence
from mocosearch_index.errors import MocosearchError

# Commands in the order in which a newcomer needs them; each lives in the module or package of the same name.
COMMANDS = (
    "demo",
    "train",
    "index",
    "search",
    "duplicates",
    "serve",
    "status",
    "verify",
    "compact",
    "eval",
    "export",
    "recipes",
    "ablate",
    "doctor",
)
INTERRUPTED = 130


class LazyGroup(click.Group):
    """Imports `mocosearch.cli.NAME` on first use, so that `--help` and completion stay instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `COMMANDS`, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name` and return its `command`."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mocosearch.cli.{cmd_name}")
        command: click.Command = module.command
        return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", "-V", prog_name="mocosearch")
def cli() -> None:
    """Search an image collection by picture, with an encoder learned from that very collection.

    \b
    mocosearch train ./photos     learn an encoder from the photos alone
    mocosearch index ./photos     embed them; run it again after any change
    mocosearch serve              look for similar photos in the browser
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 error, 2 usage, 3 skips under --strict, 4 mismatch, 130 Ctrl-C."""
    # Threads that spin while they wait starve each other as soon as another program wants a core: a training step
    # on two busy cores then takes nine times as long. To be said before torch loads its OpenMP.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave by the front door, so that temporary folders go
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        status = cli.main(args=arguments, prog_name="mocosearch", standalone_mode=False)
    except MocosearchError as error:
        fail(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        fail("Stopped.", INTERRUPTED)
    except OSError as error:
        if not _output_is_lost():
            raise
        fail(f"The output cannot be written ({error.strerror}): free some space, or send it elsewhere.", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _output_is_lost() -> bool:
    """Tell whether stdout takes not even a line end; if so it is silenced, for Python tries again as it ends."""
    try:
        print(flush=True)
    except OSError:
        silence(1)
        return True
    return False


def fail(message: str, exit_code: int) -> None:
    """Print one line on stderr and exit."""
    with lasting_stderr():
        click.secho(message, fg="red", err=True)
    sys.exit(exit_code)
