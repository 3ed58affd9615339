"""Writing what was found for a run onto its events, and its stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from orchtrace_otel.model import Event, is_text, records_of
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
        """Write flags and records onto the stop, if the trace has one.

        What others keep in their place stays, and these are then not written.
        """
        stop = self._trace.stop
        if stop is None:
            return
        place = len(self._events) - 1
        self._own((place,))
        keys: Any = self._events[place].keys
        known = keys.get("flags", ())
        if isinstance(known, list | tuple):
            all_flags = {*filter(is_text, cast("Iterable[object]", known)), *flags}
            if all_flags:
                keys["flags"] = sorted(all_flags)
        written = records_of(stop, "reward_records")
        if written or not keys.get("reward_records"):
            self._list(keys, written, given, findings.records)

    def _list(
        self,
        keys: Any,
        written: Sequence[Mapping[str, Any]],
        given: Sequence[Reward],
        found: Sequence[Mapping[str, Any]],
    ) -> None:
        """Write the records of rewards, one that has an id that is there already in its place."""
        # Last, where the builder puts them: a scored trace is read again as it was.
        keys.pop("reward_records", None)
        run_id = self._trace.trace_id
        records: dict[object, Mapping[str, Any]] = {
            name if isinstance(name := record.get("id"), str) else number: record
            for number, record in enumerate(written)
            if not is_builtin(record, run_id)
        }
        records |= {reward.id: reward.to_dict() for reward in given}
        # Ours behind those of users: whoever computes them again writes the same list.
        listed = [*records.values(), *found]
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
