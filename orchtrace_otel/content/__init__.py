"""Content: prompts, completions, arguments, results, texts of any kind; off by default.

While it is off, nothing that people or models wrote leaves the process through any
field: `active()` is None, and nobody serialises anything. On, everything passes the
one gate (`gate.py`), is copied within limits (`values.py`), redacted (`redaction.py`),
and only then hashed, stored and put on spans.

docs/content.md says what is stored and how; `read_turn` reads a turn back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.content.gate import active, use
from orchtrace_otel.content.hashing import keyed_hash, task_id, use_key

if TYPE_CHECKING:
    from orchtrace_otel.content.asking import ask
    from orchtrace_otel.content.capture import Capture
    from orchtrace_otel.content.collection import collect, delete_run
    from orchtrace_otel.content.store import Store, open_store
    from orchtrace_otel.content.tokens import Tokens
    from orchtrace_otel.content.turn import TurnContent, read_turn

__all__ = [
    "Capture",
    "Store",
    "Tokens",
    "TurnContent",
    "active",
    "ask",
    "collect",
    "delete_run",
    "keyed_hash",
    "open_store",
    "read_turn",
    "task_id",
    "use",
    "use_key",
]

# Every traced program loads this package; what is for content that is on, or for reading it,
# is loaded when it is asked for.
_LATER: Final = {
    "Capture": "capture",
    "Store": "store",
    "Tokens": "tokens",
    "TurnContent": "turn",
    "ask": "asking",
    "collect": "collection",
    "delete_run": "collection",
    "open_store": "store",
    "read_turn": "turn",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415 - only for what comes later

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
