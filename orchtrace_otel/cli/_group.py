"""The group of verbs, and the one place where their errors become exit codes."""

from __future__ import annotations

import importlib
import pkgutil
import signal
import sys
from difflib import get_close_matches
from importlib.metadata import version
from typing import Final

import click

from orchtrace_otel import cli
from orchtrace_otel.cli._console import print_error
from orchtrace_otel.errors import ConfigError, MissingDependencyError, OrchtraceError

INPUT_AT_FAULT: Final = 1
USAGE_AT_FAULT: Final = 2


class _Verbs(click.Group):
    """Finds verbs by the modules of this package, and loads one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs: the public modules of this package."""
        del ctx
        names = (module.name for module in pkgutil.iter_modules(cli.__path__))
        return sorted(name for name in names if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a verb."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{cli.__name__}.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Load the verb that was typed; what is none is told with the verbs spelt like it."""
        verbs = self.list_commands(ctx)
        alike = get_close_matches(args[0], verbs)
        if args[0] not in verbs and alike:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, alike))}?")
        return super().resolve_command(ctx, args)


@click.command(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog="Exit codes: 0 fine, 1 the input is at fault, 2 the usage is.",
)
@click.version_option(version("orchtrace-otel"), message="orchtrace %(version)s")
@click.pass_context
def group(ctx: click.Context) -> int:
    """Traces, rewards and training data from teams of LLM agents.

    Start with `orchtrace demo`: it runs three teams offline and says where to look.
    """
    if ctx.invoked_subcommand is None:
        # Some versions of click exit with 0 here, some with 2.
        click.echo(ctx.get_help(), err=True)
        return USAGE_AT_FAULT
    return 0


def run() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # What the output cannot show is escaped; it never ends the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    # Else what is half written stays behind. `collect` ends in a way of its own.
    signal.signal(signal.SIGTERM, _end)
    sys.exit(_code())


def _end(_number: int, _frame: object) -> None:
    sys.exit(cli.TERMINATED)


def _code() -> int:
    try:
        code: object = group.main(prog_name="orchtrace", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return USAGE_AT_FAULT
    except click.Abort:
        return cli.INTERRUPTED
    except (ConfigError, MissingDependencyError) as error:
        print_error(str(error))
        return USAGE_AT_FAULT
    except OrchtraceError as error:
        print_error(str(error))
        return INPUT_AT_FAULT
    except OSError as error:
        print_error(f"{error.filename or 'the system'}: {error.strerror or error}")
        return INPUT_AT_FAULT
    return code if isinstance(code, int) else 0
