"""The seam between the estimators and whatever can be run again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from orchtrace_otel.replay.change import Change


@runtime_checkable
class Replayer(Protocol):
    """Runs a recorded run again with a change; made by `Adapter.replayer`.

    `value` is called from several threads at once, in a context in which nothing is
    traced. It takes over everything that is not downstream of `change.touched`, runs
    the rest, and returns the outcome, a finite number, higher is better.

    It raises `ReplayBlockedError` where a change cannot be carried out without an
    effect on the world: a tool that is not `replay_safe` and has no recorded result for
    these arguments, a checkpoint that is missing. Any other exception is a replay that
    failed. Both are counted, and cost that replay alone.
    """

    def value(self, change: Change, seed: int) -> float | Awaitable[float]:
        """Return the outcome of one replay.

        Args:
            change: What is otherwise.
            seed: Which throw of the dice: the same for the two runs that are compared.
                Where the host cannot be seeded, ignore it.
        """
        ...


PlainReplay: TypeAlias = Callable[[Change, int], float | Awaitable[float]]
"""What plain code gives instead: a function, or a coroutine function, of the same."""


class FunctionReplayer:
    """Plain code's own function as a `Replayer`."""

    def __init__(self, function: PlainReplay) -> None:
        self._function = function

    def value(self, change: Change, seed: int) -> float | Awaitable[float]:
        """Call the function."""
        return self._function(change, seed)


Score: TypeAlias = Callable[[Any], float]
"""From what a framework's team returned to the outcome."""
