"""Who wrote what a task reads of its graph's state: the `message` edges into its opening.

Of the state itself nothing is read, only names of channels. A node is told once of each
write: of those by others since it last began, and of all since the run began when it
begins for the first time. A channel that keeps the latest value has the writers of its
latest update; one with a reducer has all.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orchtrace_langgraph._framework import find
from orchtrace_otel.flow import Edge, Mark

if TYPE_CHECKING:
    from orchtrace_langgraph._tasks import Task

_MOST_WRITES: Final = 1_000
"""Writes of one channel that are remembered; whoever reads later misses the oldest."""


class _Wrote(NamedTuple):
    step: int
    instance: str | None
    marks: tuple[Mark, ...]


class News(NamedTuple):
    """What a task reads that is new to it.

    Attributes:
        edges: One `message` edge from each writer.
        channels: Where these wrote, as `state:<key>`.
        is_whole: Whether no write is missing.
    """

    edges: list[Edge]
    channels: tuple[str, ...]
    is_whole: bool


class State:
    """Who wrote the channels of one run's state, as far as somebody may not know it yet.

    Args:
        keeps_all: Channels of the state, and whether earlier writes stay part of the
            value.
        passing: Channels that are empty again after a step without a write to them.

    Attributes:
        step: Number of the step whose tasks read the state as it is now.
    """

    __slots__ = ("_keeps_all", "_passing", "_read", "_replaced", "_written", "step")

    def __init__(
        self, keeps_all: Mapping[str, bool], passing: Container[str] = frozenset()
    ) -> None:
        self._keeps_all = keeps_all
        self._passing = passing
        self._replaced: dict[str, int] = {}
        self._written: dict[str, deque[_Wrote]] = {}
        self._read: dict[str, int] = {}
        self.step = 0

    def wrote(self, task: Task, marks: tuple[Mark, ...], writes: Iterable[tuple[str, Any]]) -> None:
        """Note what a task wrote, which is known from `marks` on."""
        step = self.step
        wrote: _Wrote | None = None
        for channel, value in writes:
            keeps_all = self._keeps_all.get(channel)
            if keeps_all is None:
                continue
            if wrote is None:
                wrote = _Wrote(step, task.instance, marks)
            known = self._written.get(channel)
            if known is None:
                known = self._written[channel] = deque(maxlen=_MOST_WRITES)
            if keeps_all and self._is_replaced(channel, value, known):
                continue
            if not keeps_all and known and known[-1].step != step:
                known.clear()
            if not known or known[-1] is not wrote:
                known.append(wrote)

    def _is_replaced(self, channel: str, value: Any, known: deque[_Wrote]) -> bool:
        """Whether a write counts for nothing, since another of its step replaced the value."""
        if replaces(value):
            known.clear()
            self._replaced[channel] = self.step
            return False
        return self._replaced.get(channel) == self.step

    def read(self, task: Task, channels: Iterable[str]) -> News | None:
        """Return who wrote what a task reads and does not know yet, if anybody did."""
        since = self._read.get(task.name, 0)
        self._read[task.name] = self.step
        found: dict[str, Edge] = {}
        through: list[str] = []
        is_whole = True
        for channel in channels:
            written = self._written.get(channel)
            if written is None or (channel in self._passing and written[-1].step != self.step - 1):
                continue
            news = _news(written, since, task.instance)
            if not news:
                continue
            through.append(f"state:{channel}")
            is_whole = is_whole and len(news) < _MOST_WRITES
            for wrote in reversed(news):
                for mark in wrote.marks:
                    found.setdefault(mark.event_id, ("message", mark))
        return News(list(found.values()), tuple(through), is_whole) if found else None


def _news(written: deque[_Wrote], since: int, reader: str | None) -> list[_Wrote]:
    """Return the writes by others from the step `since` on, latest first."""
    found: list[_Wrote] = []
    for wrote in reversed(written):
        if wrote.step < since:
            break
        if wrote.instance != reader:
            found.append(wrote)
    return found


def replaces(value: Any) -> bool:
    """Whether a value takes the place of all that a reducer kept: what LangGraph says of it."""
    is_it: bool = _asks_for_replacing()(value)[0]
    return is_it


@functools.cache
def _asks_for_replacing() -> Any:
    try:
        return find("langgraph.channels.binop:_get_overwrite")
    except AttributeError:  # LangGraph before 1.0 replaces nothing
        return _replaces_nothing


def _replaces_nothing(_: object) -> tuple[bool, None]:
    return False, None
