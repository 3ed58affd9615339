"""Writing what was found for a run onto its events, and its stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from orchtrace_otel.model import Event
from orchtrace_otel.rewards.records import is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchtrace_otel.model import Reward, Trace
    from orchtrace_otel.rewards.component import Findings


class Marks:
    """What is to be written onto the events of one trace.

    Args:
        trace: The trace; its own events are left alone unless it is fresh.
        fresh: Whether nobody else has seen the trace: the keys of its events are then
            written where they are. Copying them would be the dearest part of scoring.
    """

    def __init__(self, trace: Trace, *, fresh: bool = False) -> None:
        self._trace = trace
        self._events = list(trace.events)
        self._fresh = fresh
        self._copied: set[int] = set()

    def credit(self, found: Iterable[Mapping[str, float]]) -> None:
        """Write each event's credit."""
        self._own(range(len(self._events)))
        for event, numbers in zip(cast("list[Any]", self._events), found, strict=True):
            event.keys["credit"] = numbers

    def rewards(self, found: Mapping[int, Mapping[str, float]]) -> None:
        """Write the rewards of single events, beside those that are there."""
        self._own(found)
        for place, numbers in found.items():
            keys: Any = self._events[place].keys
            if "rewards" not in keys:
                keys["rewards"] = numbers
            elif isinstance(keys["rewards"], dict):  # what else others keep there stays
                keys["rewards"] = {**keys["rewards"], **numbers}

    def stop(self, given: Sequence[Reward], findings: Findings, flags: Iterable[str]) -> None:
        """Write flags and records onto the stop, if the trace has one."""
        stop = self._trace.stop
        if stop is None:
            return
        place = len(self._events) - 1
        self._own((place,))
        keys: Any = self._events[place].keys
        all_flags = {*keys.get("flags", ()), *flags}
        if all_flags:
            keys["flags"] = sorted(all_flags)
        # Last, where the builder puts them: a scored trace is read again as it was.
        written = keys.pop("reward_records", ())
        run_id = self._trace.trace_id
        records = {record["id"]: record for record in written if not is_builtin(record, run_id)}
        records |= {reward.id: reward.to_dict() for reward in given}
        # Ours behind those of users: whoever computes them again writes the same list.
        listed = [*records.values(), *findings.records]
        if listed or written:
            keys["reward_records"] = listed

    def events(self) -> tuple[Event, ...]:
        """The events, with all that was written."""
        return tuple(self._events)

    def _own(self, places: Iterable[int]) -> None:
        """Give the events at these places keys that may be written."""
        for place in () if self._fresh else places:
            if place not in self._copied:
                self._copied.add(place)
                one = self._events[place]
                self._events[place] = Event(one.id, one.t, one.type, one.agent, {**one.keys})
