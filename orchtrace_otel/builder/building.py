"""One trace, from the records of its spans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.activations import cut_cycles, take_activation
from orchtrace_otel.builder.causes import connect
from orchtrace_otel.builder.events import Events
from orchtrace_otel.builder.points import make_stop, take_point, take_tool
from orchtrace_otel.builder.records import SpanRecord, distinct, is_ours
from orchtrace_otel.builder.tree import Tree
from orchtrace_otel.builder.turns import Tokens, count
from orchtrace_otel.builder.values import rewards, texts, word
from orchtrace_otel.model import Event, Reward, Trace


def build(run_id: str, records: Iterable[SpanRecord], flags: Iterable[str] = ()) -> Trace:
    """Build the trace of one run from its spans.

    A run that did not stop in sight gets a stop of reason `unknown` and a flag, so
    that every trace says what it lost in one place.

    Args:
        run_id: `<OTel trace id>-<span id of the root>`.
        records: The run's spans and what lies between them, in any order.
        flags: What is known to be lost, beside what the spans themselves show.
    """
    return _Building(run_id, records, flags).trace()


class _Building:
    """One trace being built: which span becomes what."""

    def __init__(self, run_id: str, records: Iterable[SpanRecord], flags: Iterable[str]) -> None:
        self.run_id = run_id
        self.flags = set(flags)
        by_id, differing = distinct(records)
        if differing:
            self.flags.add("duplicate_spans")
        self.tree = Tree(run_id.rpartition("-")[2], by_id, self.flags)
        self.events = Events(self.tree, self.flags)
        self.turns: list[SpanRecord] = []
        self.stop: SpanRecord | None = None
        root = self.tree.root
        self.of_root: Mapping[str, Any] = {} if root is None else root.attributes
        self.flags.update(texts(self.of_root.get(a.FLAGS, ()), self.flags))
        if self.of_root.get(a.RUN_ID, run_id) != run_id:
            self.flags.add("values_cut")  # by a limit of the SDK on their length

    def trace(self) -> Trace:
        self._take_all()
        if self.events.has_unsure_parents:
            cut_cycles(self.events, self.tree.by_id)
        before = self.events.in_order()
        stop = make_stop(self.events, self.stop)
        connect(self.events)
        return self._finish((*before, stop), count(self.events, self.turns, stop))

    def _take_all(self) -> None:
        """Take the spans in canonical order; those that say nothing of what we know are glue."""
        events = self.events
        for record in self.tree.by_id.values():
            found = record.attributes
            if record.links_dropped or record.attributes_dropped:
                self._say_what_was_cut(record)
            if a.OPENS in found:
                take_activation(events, record)
            elif a.VERB in found:
                self._take_verb(record, found[a.VERB])
            elif a.OPERATION in found:
                self._take_call(record, found[a.OPERATION])

    def _say_what_was_cut(self, record: SpanRecord) -> None:
        if is_ours(record.attributes):
            if record.links_dropped:
                self.flags.add("links_cut")
            if record.attributes_dropped:
                self.flags.add("attributes_evicted")

    def _take_verb(self, record: SpanRecord, verb: Any) -> None:
        if verb == a.TURN:
            self._take_turn(record)
        elif verb == a.TOOL_CALL:
            take_tool(self.events, record)
        elif verb == "stop":
            if self.stop is not None:
                self.flags.add("several_stops")
            self.stop = record
        else:
            take_point(self.events, record)

    def _take_call(self, record: SpanRecord, operation: Any) -> None:
        """Take another's call of a model inside of the run, or an older sender's of a tool."""
        if operation.__class__ is str and operation in a.TURN_OPERATIONS:
            if self.tree.is_inside(record):
                self._take_turn(record)
        elif a.RUN_ID in record.attributes:
            take_tool(self.events, record)

    def _take_turn(self, record: SpanRecord) -> None:
        self.turns.append(record)
        if record.end > self.events.end:
            self.flags.add("late_spans")

    def _finish(self, events: tuple[Event, ...], tokens: Tokens) -> Trace:
        given, is_whole = rewards(self.of_root.get(a.REWARD_RECORDS))
        if not is_whole:
            self.flags.add("rewards_unreadable")
        if self.tree.by_id:
            self.events.keys[events[0].id]["start_unix_nano"] = self.events.origin
        if given and not _are_known(given, events, self.turns):
            self.flags.add("reward_targets_unknown")
        keys = self.events.keys[events[-1].id]
        keys["revision"] = 0
        keys["flags"] = sorted(self.flags)
        # Last, where scoring puts them too: a scored trace is read again as it was.
        if given:
            keys["reward_records"] = [reward.to_dict() for reward in given]
        return Trace(
            trace_id=self.run_id,
            task_id=word(self.of_root, a.TASK_ID) or self.run_id,
            events=events,
            edges=tuple(self.events.edges),
            rewards={reward.component: reward.value for reward in given if reward.unit == "team"},
            costs=_costs(events, tokens),
            system=word(self.of_root, a.SYSTEM),
            metrics={"turns_without_usage": tokens.turns_without_usage},
        )


def _are_known(
    given: Iterable[Reward], events: Iterable[Event], turns: Iterable[SpanRecord]
) -> bool:
    """Whether users rewarded what the run has: an event, a turn, an agent or a role."""
    named = {reward.target for reward in given if reward.estimator != "structural"}
    named.difference_update((None, *[turn.span_id for turn in turns]))
    for event in events if named else ():
        keys = event.keys
        named -= {event.id, event.agent, keys.get("to"), keys.get("instance"), keys.get("role")}
    return not named


def _costs(events: tuple[Event, ...], tokens: Tokens) -> dict[str, float]:
    verbs = [event.keys["verb"] for event in events]
    return {
        "tokens": tokens.known,
        "wall_clock_s": events[-1].t,
        "tool_calls": verbs.count("tool_call"),
        "messages": verbs.count("message"),
    }
