"""Tools in replays: called again only where they are marked safe, else played back.

`record()` keeps what decorated tools gave back while it is open, in memory and nowhere
else. In a replay a tool that is not `replay_safe` gives what it gave for the same
arguments, the first time what it gave first; where there is nothing recorded for
them, the replay is blocked. A replay that takes what came before a time from the
record goes on from there.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context

from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.spans import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from opentelemetry.context import Context

    from orchtrace_otel.calls import Plan
    from orchtrace_otel.methods import Method

_RECORDING: Final = otel_context.create_key("orchtrace-recording")
_PLAYBACK: Final = otel_context.create_key("orchtrace-playback")


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a tool and what came of it; copies, which the host cannot change any more."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    error: Exception | None
    at: float  # seconds since the epoch

    def fits(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether it was called with these arguments."""
        try:
            return bool(self.args == args and self.kwargs == kwargs)
        except Exception:  # noqa: BLE001 - the host's own comparison, of arrays for example
            return False


class Recording:
    """What tools gave back, by name, in order of return.

    Attributes:
        skipped: How many results could not be kept, since they cannot be copied.
    """

    def __init__(self) -> None:
        self._calls: defaultdict[str, list[_Call]] = defaultdict(list)
        self._lock = threading.RLock()
        self.skipped = 0

    def __len__(self) -> int:
        return sum(len(calls) for calls in self._calls.values())

    def keep(
        self,
        tool: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
        error: Exception | None = None,
    ) -> None:
        """Keep copies of a call and its result."""
        try:
            call = _Call(*copy.deepcopy((args, dict(kwargs), result)), error, time.time())
        except Exception:  # noqa: BLE001 - the host's own objects; what cannot be copied is not kept
            self.skipped += 1
            return
        with self._lock:
            self._calls[tool].append(call)

    def find(self, tool: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[_Call]:
        """Return the calls of a tool with these arguments, in order."""
        return [call for call in self._calls.get(tool, ()) if call.fits(args, kwargs)]


class Playback:
    """A recording as one replay plays it back.

    Attributes:
        blocked: Why the replay is blocked, once it is; hosts may catch what says so.
    """

    def __init__(self, recording: Recording | None) -> None:
        self.blocked: str | None = None
        self._recording = recording
        self._since = 0.0
        self._played: defaultdict[tuple[str, int], int] = defaultdict(int)

    def go_on_from(self, when: float) -> None:
        """Count what tools gave before a time, in seconds since the epoch, as played."""
        self._since = when

    def result(self, tool: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what the tool gave, or raise what it raised; the last again once all came."""
        calls = [] if self._recording is None else self._recording.find(tool, args, kwargs)
        if not calls:
            msg = (
                f"tool {tool!r} must be marked replay_safe=True or have a recorded result "
                "for these arguments; use record() around the run, or mark it"
            )
            self.blocked = msg
            raise ReplayBlockedError(msg)
        key = (tool, id(calls[0]))
        place = sum(call.at < self._since for call in calls) + self._played[key]
        call = calls[min(place, len(calls) - 1)]
        self._played[key] += 1
        if call.error is not None:
            raise copy.copy(call.error)
        return copy.deepcopy(call.result)


@contextmanager
def record() -> Generator[Recording, None, None]:
    """Keep in memory what decorated tools give back inside, for `counterfactual`.

    Example:
        >>> import orchtrace_otel as orchtrace
        >>> @orchtrace.tool
        ... def look_up(fruit):
        ...     return len(fruit)
        >>> with record() as recording:
        ...     look_up("pear")
        4
        >>> len(recording)
        1
    """
    recording = Recording()
    block = Block(otel_context.set_value(_RECORDING, recording))
    try:
        yield recording
    finally:
        block.leave()


def play_back(recording: Recording | None, context: Context) -> Context:
    """Return `context` as one of a replay, in which tools are played back."""
    return otel_context.set_value(_PLAYBACK, Playback(recording), context)


def is_replaying() -> bool:
    """Whether this code runs inside of a replay: hosts may leave out what acts on the world."""
    return playback() is not None


def playback() -> Playback | None:
    """Return what tools are played back from here; None outside of replays."""
    found = otel_context.get_value(_PLAYBACK)
    return found if isinstance(found, Playback) else None


def recording() -> Recording | None:
    """Return where what tools give back is kept here, if `record()` is open."""
    found = otel_context.get_value(_RECORDING)
    return found if isinstance(found, Recording) else None


def hold_tool(
    name: str, function: Callable[..., Any], *, is_safe: bool, method: Method | None = None
) -> Callable[..., Any]:
    """Return a tool that is recorded and played back, of the same kind and signature.

    One that streams is not recorded; `refuse_stream` keeps it out of replays.

    Args:
        name: The tool's name.
        function: The tool.
        is_safe: Whether replays may call it.
        method: How to tell the object that it belongs to, which is no argument of the tool.
    """
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return function
    if inspect.iscoroutinefunction(function):
        return _hold_coroutine(name, function, method, is_safe=is_safe)
    return _hold_function(name, function, method, is_safe=is_safe)


def refuse_stream(plan: Plan) -> None:
    """Block a replay that would call a streaming tool.

    Raises:
        ReplayBlockedError: In a replay, unless the tool is safe.
    """
    played = playback()
    if plan.kind == "tool" and not plan.replay_safe and played is not None:
        msg = f"tool {plan.name!r} must be marked replay_safe=True: what streams is not recorded"
        played.blocked = msg
        raise ReplayBlockedError(msg)


def _hold_function(
    name: str, function: Callable[..., Any], method: Method | None, *, is_safe: bool
) -> Callable[..., Any]:
    @functools.wraps(function)
    def held(*args: Any, **kwargs: Any) -> Any:
        context = otel_context.get_current()
        playback: Any = context.get(_PLAYBACK)
        if playback is not None and not is_safe:
            return playback.result(name, *_asked(method, args, kwargs))
        recording: Any = context.get(_RECORDING)
        del context  # an error holds this frame, and the context whoever raises it
        if recording is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            recording.keep(name, *_asked(method, args, kwargs), None, error)
            raise
        recording.keep(name, *_asked(method, args, kwargs), result)
        return result

    return held


def _hold_coroutine(
    name: str, function: Callable[..., Any], method: Method | None, *, is_safe: bool
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def held(*args: Any, **kwargs: Any) -> Any:
        context = otel_context.get_current()
        playback: Any = context.get(_PLAYBACK)
        if playback is not None and not is_safe:
            return playback.result(name, *_asked(method, args, kwargs))
        recording: Any = context.get(_RECORDING)
        del context  # see _hold_function
        if recording is None:
            return await function(*args, **kwargs)
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            recording.keep(name, *_asked(method, args, kwargs), None, error)
            raise
        recording.keep(name, *_asked(method, args, kwargs), result)
        return result

    return held


def _asked(
    method: Method | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return what a tool is asked, without the object that it belongs to."""
    return (args, kwargs) if method is None else method.arguments(args, kwargs)
