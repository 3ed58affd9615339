"""The command `orchtrace`: one module of this package per verb.

A verb is a public module here with a click command named `command`; the next one is
one more file. Modules whose names begin with `_` hold what verbs share.
"""

from __future__ import annotations

import sys
from typing import Final

from orchtrace_otel.own_process import collect_garbage_seldom

__all__ = ["main"]

_HOW_TO_INSTALL: Final = (
    "the orchtrace command needs click, rich and jsonschema-rs; "
    "run: pip install 'orchtrace-otel[cli]'"
)
INTERRUPTED: Final = 130
"""Exit code of what Ctrl-C ended, as shells have it."""
TERMINATED: Final = 143
"""Exit code of what SIGTERM ended, likewise."""

_OURS: Final = frozenset({"click", "rich", "jsonschema_rs"})


def main() -> None:
    """Run the command line; exits with 0, 1 (the input is at fault) or 2 (the usage is)."""
    try:
        from orchtrace_otel.cli._group import run  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OURS:
            raise
        print(_HOW_TO_INSTALL, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # while it loads, of which click knows nothing yet
        sys.exit(INTERRUPTED)
    collect_garbage_seldom()
    run()
