"""Which tool call or lasting event an interval went on inside of, beside the activation it names.

What code inside of a tool does follows from the tool's opening: at once, or by way of what
it did there before, such as a decision, a message, or a call that came back. It is inside where
it is of the tool's own activation, and is over by the tool's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.model import Event

Interval: TypeAlias = tuple[int, int, str, int, int, str | None]
"""Something that takes time, between two events or during one.

When it begins and ends; its name, the id of its span, or of its event where it is one
event; positions of the events that begin and end it, perhaps the same; name of the
interval around it, None where there is none.
"""


def overlap(intervals: list[Interval]) -> bool:
    """Whether one begins before another is over; they are sorted in place.

    Example:
        >>> overlap([(2, 3, "b", 2, 3, "r"), (0, 2, "a", 0, 1, "r")])
        False
    """
    intervals.sort()
    return any(later[0] < earlier[1] for earlier, later in pairwise(intervals))


def have_effects(holders: Mapping[int, Interval], causes: Sequence[Sequence[int]]) -> bool:
    """Whether one of them leads to anything but its own end.

    Example:
        >>> have_effects({0: (0, 2, "a", 0, 1, "r")}, [[], [0]])
        False
    """
    return any(
        cause in holders and holders[cause][4] != place
        for place, sources in enumerate(causes)
        for cause in sources
    )


class Nesting:
    """Finds what each event is inside of.

    Args:
        events: Of the trace.
        begin: When each happened.
        causes: Positions that lead to each.
        intervals: All that takes time.
        holders: Tool calls and lasting events among them, by the position that begins them.
    """

    def __init__(
        self,
        events: Sequence[Event],
        begin: Sequence[int],
        causes: Sequence[Sequence[int]],
        intervals: Sequence[Interval],
        holders: Mapping[int, Interval],
    ) -> None:
        self._events = events
        self._begin = begin
        self._causes = causes
        self._holders = holders
        self._opened = {one[3]: one for one in intervals}
        self._opening_of = {one[4]: one[3] for one in intervals}
        self._around: dict[int, Interval | None] = {}
        self._depth: dict[int, int] = {}

    def follow(self, order: Sequence[int]) -> Mapping[int, Interval | None]:
        """The innermost holder that each event is inside of, by position.

        Args:
            order: Positions, causes first. What it lacks is on a cycle or before one, and is
                inside of what causes it at once.
        """
        around = self._around
        for place in order:
            around[place] = outer = self._innermost(place)
            if place in self._holders:
                self._depth[place] = 1 if outer is None else self._depth.get(outer[3], 0) + 1
        others = set(range(len(self._events))).difference(order)
        return around | {place: self._innermost(place) for place in others}

    def _innermost(self, place: int) -> Interval | None:
        inner = self._opened.get(place)
        if inner is None:
            owner, end = self._events[place].keys.get("activation"), self._begin[place] + 1
        else:
            owner, end = inner[5], inner[1]
        found = [
            # Of holders beside each other the one that causes it at once, then the last to begin.
            (self._depth.get(outer[3], 0), outer[3] == cause, outer[0], outer[2], outer)
            for cause in self._causes[place]
            if (outer := self._going_on(cause, end)) is not None
            and outer is not inner
            and outer[5] == owner
        ]
        return max(found)[-1] if found else None

    def _going_on(self, cause: int, end: int) -> Interval | None:
        """What an event leaves its effects inside of that goes on until `end`."""
        outer = self._holders.get(cause)
        if outer is None:
            outer = self._around.get(self._opening_of.get(cause, cause))
        while outer is not None and outer[1] < end:
            outer = self._around.get(outer[3])
        return outer
