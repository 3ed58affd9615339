"""The one gate: whether content is captured in this process, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchtrace_otel.content.recorder import Recorder

_recorder: Recorder | None = None


def active() -> Recorder | None:
    """Return who captures content; None while it is off, and then nothing may be looked at."""
    return _recorder


def use(recorder: Recorder | None) -> Recorder | None:
    """Let content through to `recorder` from now on, or to nobody; return who was before."""
    global _recorder
    before, _recorder = _recorder, recorder
    return before
