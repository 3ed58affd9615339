"""The one gate: whether content is captured in this process, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchtrace_otel.content.recorder import Recorder

recorder: Recorder | None = None
"""Who captures content; None while it is off, and then nothing may be looked at. Where every
call of the host's passes it is read as it stands, elsewhere by `active()`."""


def active() -> Recorder | None:
    """Return who captures content; None while it is off, and then nothing may be looked at."""
    return recorder


def use(now: Recorder | None) -> Recorder | None:
    """Let content through to `now` from now on, or to nobody; return who was before."""
    global recorder
    before, recorder = recorder, now
    return before
