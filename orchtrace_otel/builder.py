"""Finished spans to a Trace, the same bit for bit in any order of arrival.

Spans are taken as light records: integers and strings, nothing of the host's. When a
run closes they are put in canonical order (start, span id) and become events and
edges. The same function serves the process that made the spans and whoever received
them over OTLP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from operator import attrgetter
from typing import Any, Final, TypeAlias, cast

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.model import (
    EDGE_TYPES,
    ESTIMATORS,
    FAMILIES,
    STATUSES,
    UNITS,
    VERBS,
    Edge,
    Event,
    Json,
    Reward,
    Trace,
    Turn,
)

_NANO: Final = 1_000_000_000
_BEGIN, _OPENING, _POINT, _CLOSING = 0, 1, 2, 3
_MOST_TOKENS: Final = 2**53
_EDGE_TYPES: Final = frozenset(EDGE_TYPES)
_OPENINGS: Final = frozenset(("begin", "spawn", "delegate"))
_MAY_BE_OPEN: Final = frozenset(("open_spans", "truncated", "given_up"))
"""Flags of runs that closed before all of their spans had come."""


@dataclass(slots=True)
class SpanRecord:
    """What the builder needs of a span; made from SDK spans and from OTLP alike.

    Attributes:
        span_id: 16 hexadecimal digits.
        parent_id: The same of its OTel parent; None where it has none.
        start: Nanoseconds since the epoch.
        end: Nanoseconds since the epoch.
        attributes: Its attributes; only read.
        is_error: Whether its OTel status is ERROR.
        links_dropped: Links that a limit of the SDK cut.
        attributes_dropped: Attributes that a limit of the SDK evicted.
    """

    span_id: str
    parent_id: str | None
    start: int
    end: int
    attributes: Mapping[str, Any]
    is_error: bool = False
    links_dropped: int = 0
    attributes_dropped: int = 0


_Usage: TypeAlias = tuple[int | None, int | None]
"""Tokens read and written; None where unknown."""

_Key: TypeAlias = tuple[str, type | tuple[type, ...]]
"""Key of an event, and what its attribute holds."""


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


def distinct(records: Iterable[SpanRecord]) -> tuple[dict[str, SpanRecord], set[str]]:
    """Return the spans by id, in canonical order, and the ids that came with different contents.

    A span that is sent again is the same span. Where two differ, the one that says
    most is taken, whichever came first.
    """
    ordered = sorted(records, key=_canonical)
    by_id = {record.span_id: record for record in ordered}
    if len(by_id) == len(ordered):
        return by_id, set()
    by_id.clear()
    differing: set[str] = set()
    for record in ordered:
        known = by_id.setdefault(record.span_id, record)
        if known != record:
            differing.add(record.span_id)
            by_id[record.span_id] = max(known, record, key=_fullness)
    return {record.span_id: record for record in sorted(by_id.values(), key=_canonical)}, differing


_FOREIGN: Final = (
    a.OPERATION,
    a.AGENT_NAME,
    a.PROVIDER,
    a.REQUEST_MODEL,
    a.RESPONSE_MODEL,
    a.FINISH_REASONS,
    a.INPUT_TOKENS,
    a.OUTPUT_TOKENS,
)


def foreign_attributes(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a span that is not ours: who called which model, and the usage."""
    return {key: found[key] for key in _FOREIGN if key in found}


class _Building:
    """One trace being built: tables by span id, filled in canonical order."""

    def __init__(self, run_id: str, records: Iterable[SpanRecord], flags: Iterable[str]) -> None:
        self.run_id = run_id
        self.flags = set(flags)
        self.by_id, differing = distinct(records)
        if differing:
            self.flags.add("duplicate_spans")
        self.records = list(self.by_id.values())
        self.root_id = run_id.rpartition("-")[2]
        self.root = self.by_id.get(self.root_id)
        self.origin = (self.root or self.records[0]).start if self.records else 0
        self.end = inf if self.root is None else self.root.end
        if self.root is not None:
            self.flags.update(self._texts(self.root.attributes, a.FLAGS))
            if self.root.attributes.get(a.RUN_ID, run_id) != run_id:
                self.flags.add("values_cut")  # by a limit of the SDK on their length
        self.unsure_parents = False
        self.owners: dict[str | None, str] = {}
        self.agents: dict[str, str] = {}
        self.rows: list[tuple[int, int, str, Event]] = []
        self.keys: dict[str, Json] = {}
        self.incoming: list[tuple[str, Sequence[str]]] = []
        self.edges: list[Edge] = []
        self.turns: list[SpanRecord] = []
        self.claims: dict[str, str] = {}
        self.stop: SpanRecord | None = None

    def trace(self) -> Trace:
        for record in self.records:
            self._take(record)
        if self.unsure_parents:
            self._cut_cycles()
        self.rows.sort()
        stop = self._stop_event()
        self._connect()
        self._count(stop)
        return self._finish(stop)

    def _take(self, record: SpanRecord) -> None:
        found = record.attributes
        if record.links_dropped or record.attributes_dropped:
            self._say_what_was_cut(record)
        if a.OPENS in found:
            self._take_activation(record)
        elif a.VERB in found:
            if found[a.VERB] == a.TURN:
                self._take_turn(record)
            elif found[a.VERB] == "stop":
                if self.stop is not None:
                    self.flags.add("several_stops")
                self.stop = record
            else:
                self._take_point(record)
        elif a.OPERATION in found:
            self._take_call(record)

    def _say_what_was_cut(self, record: SpanRecord) -> None:
        if a.RUN_ID in record.attributes or a.VERB in record.attributes:
            if record.links_dropped:
                self.flags.add("links_cut")
            if record.attributes_dropped:
                self.flags.add("attributes_evicted")

    def _take_call(self, record: SpanRecord) -> None:
        """Take a call of a model, be it ours or not, or one of ours of a tool."""
        operation = record.attributes[a.OPERATION]
        if operation.__class__ is str and operation in a.TURN_OPERATIONS:
            self._take_turn(record)
        elif a.RUN_ID in record.attributes:
            self._take_tool(record)

    def _take_turn(self, record: SpanRecord) -> None:
        """Note an LLM call, unless it hangs below a span from outside the run."""
        if a.VERB in record.attributes or self._is_inside(record):
            self.turns.append(record)
            if self.root is not None and record.end > self.root.end:
                self.flags.add("late_spans")

    def _is_inside(self, record: SpanRecord) -> bool:
        """Whether a span of others is below one of ours, as far as can be seen."""
        at = self.by_id.get(record.parent_id) if record.parent_id is not None else None
        for _ in range(len(self.by_id)):
            if at is None:
                break
            if a.RUN_ID in at.attributes:
                return True
            at = self.by_id.get(at.parent_id) if at.parent_id is not None else None
        return bool(self.flags & _MAY_BE_OPEN)

    def _take_activation(self, record: SpanRecord) -> None:
        found = record.attributes
        span_id = record.span_id
        agent = _text(found, a.AGENT_NAME)
        opens = found[a.OPENS]
        if opens.__class__ is not str or opens not in _OPENINGS:
            self.flags.add("garbled")
            opens = "begin"
        life = _life(record)
        is_root = span_id == self.root_id
        opened, closed = span_id + ".open", span_id + ".close"
        keys: Json
        if is_root:
            caller = "user"
            keys = {"verb": opens, "start_unix_nano": record.start}
        else:
            parent = self._owner(record)
            caller = self._caller(record, parent)
            keys = {"verb": opens, "parent": parent}
        if opens == "begin":
            keys["from"] = caller
        keys["to"] = self.agents[span_id] = agent
        keys.update(life)
        keys["status"] = "ok"
        says_more = not _MORE.isdisjoint(found)
        if says_more:
            self._copy(found, keys, _OPENING_KEYS)
        self._add(record.start, _BEGIN if is_root else _OPENING, opened, opens, caller, keys)
        self._incoming(opened, found, a.EDGES)
        if is_root:
            return
        keys = {"verb": "return", "from": agent, "to": caller, **life, "status": _status(record)}
        if says_more:
            self._copy(found, keys, _CLOSING_KEYS)
        self._add(self._end(record), _CLOSING, closed, "return", agent, keys)
        if a.EDGES_CLOSE in found:
            self._incoming(closed, found, a.EDGES_CLOSE)
        self.edges.append(Edge(opened, closed, "causal"))

    def _caller(self, record: SpanRecord, parent: str) -> str:
        """Return the agent that caused an activation inside the activation `parent`."""
        caller = self.agents.get(parent)
        if caller is None:
            self.unsure_parents = True
            holder = self.by_id.get(parent)
            caller = "unknown" if holder is None else _text(holder.attributes, a.AGENT_NAME)
        return str(record.attributes.get(a.BY) or caller)

    def _take_tool(self, record: SpanRecord) -> None:
        found = record.attributes
        span_id = record.span_id
        agent = _text(found, a.AGENT_NAME)
        tool = _text(found, a.TOOL_NAME)
        keys: Json = {"verb": "tool_call", "tool": tool}
        self._place(record, keys)
        result = {**keys, "verb": "tool_result"}
        keys["status"] = "ok"
        says_more = not _TOOL_MORE.isdisjoint(found)
        if says_more:
            self._copy(found, keys, _OPENING_KEYS)
        opened, closed = span_id + ".open", span_id + ".close"
        self._add(record.start, _OPENING, opened, "tool_call", agent, keys)
        self._incoming(opened, found, a.EDGES)
        self._claim(opened, found)
        if "tool_call_id" in keys:
            result["tool_call_id"] = keys["tool_call_id"]
        result["status"] = _status(record)
        if says_more:
            self._copy(found, result, _TOOL_CLOSING_KEYS)
        self._add(self._end(record), _CLOSING, closed, "tool_result", agent, result)
        if a.EDGES_CLOSE in found:
            self._incoming(closed, found, a.EDGES_CLOSE)
        self.edges.append(Edge(opened, closed, "causal"))

    def _take_point(self, record: SpanRecord) -> None:
        found = record.attributes
        verb = found[a.VERB]
        if verb.__class__ is not str or verb not in VERBS:
            self.flags.add("garbled")
            verb = "decide"
        agent = _text(found, a.AGENT_NAME)
        keys: Json = {"verb": verb}
        if verb == "message":
            keys["from"] = agent
        self._place(record, keys)
        keys["status"] = _status(record)
        if record.end > record.start:
            keys["duration_s"] = (record.end - record.start) / _NANO
        self._copy(found, keys, _POINT_KEYS)
        self._add(record.start, _POINT, record.span_id, verb, agent, keys)
        self._incoming(record.span_id, found, a.EDGES)
        self._claim(record.span_id, found)

    def _place(self, record: SpanRecord, keys: Json) -> None:
        """Name the activation that an event belongs to, and the instance that works in it."""
        owner = self._owner(record)
        keys["activation"] = owner
        holder = self.by_id.get(owner)
        if holder is not None and a.INSTANCE in holder.attributes:
            keys["instance"] = str(holder.attributes[a.INSTANCE])

    def _add(  # noqa: PLR0913 - the parts of an event, and its place
        self, at: int, rank: int, event_id: str, verb: str, agent: str, keys: Json
    ) -> None:
        kind, decision = VERBS[verb]
        if decision is not None:
            keys["decision"] = decision
        if not self.origin <= at <= self.end:
            at = self._into_run(at, keys)
        self.keys[event_id] = keys
        self.rows.append(
            (at, rank, event_id, Event(event_id, (at - self.origin) / _NANO, kind, agent, keys))
        )

    def _into_run(self, at: int, keys: Json) -> int:
        """Return when an event counts that was before its run began, or is after its end."""
        if at < self.origin:
            self.flags.add("skewed")
            at = self.origin
        if at > self.end:
            keys["late"] = True
            self.flags.add("late_spans")
        return at

    def _owner(self, record: SpanRecord) -> str:
        """Return the span id of the nearest activation above a span, else the root's."""
        above = _above(record)
        known = self.owners.get(above)
        return self._activation_at(above, record.span_id) if known is None else known

    def _activation_at(self, span_id: str | None, asking: str) -> str:
        """Return the nearest activation at or above a span."""
        path: list[str] = [asking]
        owners = self.owners
        found = self.root_id
        while span_id is not None:
            known = owners.get(span_id)
            if known is not None:
                found = known
                break
            record = self.by_id.get(span_id)
            if record is None:
                if span_id != self.root_id:
                    self.flags.add("orphans")
                break
            if a.OPENS in record.attributes:
                found = owners[span_id] = span_id
                break
            path.append(span_id)
            if len(path) > len(self.by_id) + 1:
                self.flags.add("cyclic_parents")
                break
            span_id = _above(record)
        for passed in path[1:]:
            owners[passed] = found
        return found

    def _incoming(self, event_id: str, found: Mapping[str, Any], key: str) -> None:
        items = found.get(key)
        if items:
            if items.__class__ is not tuple:
                items = self._texts(found, key)
            self.incoming.append((event_id, items))

    def _claim(self, event_id: str, found: Mapping[str, Any]) -> None:
        """Note which turns an event came from; the first event takes a turn's tokens."""
        if a.TURNS in found:
            for turn in self._texts(found, a.TURNS):
                self.claims.setdefault(turn, event_id)

    def _texts(self, found: Mapping[str, Any], key: str) -> list[str]:
        """Return the texts in an attribute that holds texts; what else it holds is flagged."""
        given = found.get(key, ())
        if not isinstance(given, (list, tuple)):
            self.flags.add("garbled")
            return []
        held = cast("Sequence[object]", given)
        texts = [one for one in held if isinstance(one, str)]
        if len(texts) != len(held):
            self.flags.add("garbled")
        return texts

    def _copy(self, found: Mapping[str, Any], keys: Json, table: Mapping[str, _Key]) -> None:
        """Copy what an event says of itself, in an order that no sender decides."""
        present = table.keys() & found.keys()
        for attribute in sorted(present) if len(present) > 1 else present:
            name, kinds = table[attribute]
            value = found[attribute]
            if not isinstance(value, kinds):
                self.flags.add("garbled")
            elif isinstance(value, (list, tuple)):
                texts = self._texts(found, attribute)
                keys[name] = [_link(one) for one in texts] if name == "links" else texts
            else:
                keys[name] = value

    def _end(self, record: SpanRecord) -> int:
        """Return when a span ended, which is never before it began."""
        if record.end < record.start:
            self.flags.add("skewed")
            return record.start
        return record.end

    def _cut_cycles(self) -> None:
        """Hang activations that are above each other below the root instead."""
        done: set[str] = {self.root_id}
        for record in self.records:
            path: list[str] = []
            at = record.span_id
            while at not in done and at + ".open" in self.keys:
                done.add(at)
                path.append(at)
                at = self.keys[at + ".open"].get("parent", self.root_id)
            if at in path:
                self.flags.add("cyclic_parents")
                self.keys[at + ".open"]["parent"] = self.root_id

    def _stop_event(self) -> Event:
        root, record = self.root, self.stop
        agent = "unknown" if root is None else _text(root.attributes, a.AGENT_NAME)
        keys: Json = {"verb": "stop"}
        if record is None:
            self.flags.add("no_stop" if root is not None else "no_root")
            at = self.rows[-1][0] if self.rows else self.origin
            event_id = self.root_id + ".stop"
            keys |= {
                "activation": self.root_id,
                "status": "ok",
                "stop_reason": "unknown",
                "causality": "inferred",
            }
        else:
            if root is None:
                self.flags.add("no_root")
            at, event_id = record.start, record.span_id
            self._place(record, keys)
            keys["status"] = _status(record)
            self._copy(record.attributes, keys, _POINT_KEYS)
            self._incoming(event_id, record.attributes, a.EDGES)
        keys["decision"] = "O5"
        self.keys[event_id] = keys
        return Event(event_id, max(at - self.origin, 0) / _NANO, VERBS["stop"][0], agent, keys)

    def _connect(self) -> None:
        """Turn what the spans say of their causes into edges; a cause out of sight is flagged."""
        keys, edges = self.keys, self.edges
        for event_id, items in self.incoming:
            seen: set[str] = set()
            for item in items:
                try:
                    kind, _, named = item.partition(":")
                except AttributeError:  # of others, who may send anything
                    self.flags.add("garbled")
                    continue
                if kind not in _EDGE_TYPES:
                    self.flags.add("garbled")
                    continue
                source = named if named in keys else self._resolve(named)
                if source is None:
                    self.flags.add("missing_causes")
                elif item not in seen:
                    seen.add(item)
                    edges.append(Edge(source, event_id, kind))

    def _resolve(self, source: str) -> str | None:
        """Return the opening above a span that another process named as its cause."""
        if source not in self.by_id:
            return None
        opened = self._activation_at(source, source) + ".open"
        return opened if opened in self.keys else None

    def _count(self, stop: Event) -> None:
        """Put each turn's tokens on one event, and write the turns down."""
        turns = self._distinct_turns()
        if not self.claims.keys() <= self.by_id.keys():
            self.flags.add("missing_turns")
        records: list[Json] = []
        known = unknown = 0
        for record, usage, claimed in turns:
            owner = self._owner(record)
            closing = owner + ".close"
            event_id = claimed or (closing if closing in self.keys else stop.id)
            keys = self.keys[event_id]
            tokens = sum(count for count in usage if count is not None)
            if None in usage:
                unknown += 1
            if usage != (None, None):
                keys["tokens"] = keys.get("tokens", 0) + tokens
            keys.setdefault("turns", []).append(record.span_id)
            known += tokens
            records.append(self._turn(record, owner, usage, event_id).to_dict())
        self.tokens = known
        self.turns_without_usage = unknown
        if records:
            self.keys[stop.id]["turn_records"] = records

    def _distinct_turns(self) -> list[tuple[SpanRecord, _Usage, str | None]]:
        """Return each LLM call once, its usage, and the event that claims it.

        Two instrumentations of one call nest, and the outer one is the turn; what only
        the inner one knows is taken from there.
        """
        inside: dict[str, list[SpanRecord]] = {}
        outer: list[SpanRecord] = []
        ids = {record.span_id for record in self.turns}
        for record in self.turns:
            above = self._turn_above(record, ids)
            if above is None:
                outer.append(record)
            else:
                inside.setdefault(above, []).append(record)
        found: list[tuple[SpanRecord, _Usage, str | None]] = []
        for record in outer:
            tellers = [record, *inside.get(record.span_id, ())]
            usage = next((u for u in map(_usage, tellers) if u != (None, None)), (None, None))
            claims = (self.claims.get(teller.span_id) for teller in tellers)
            found.append((record, usage, next((one for one in claims if one is not None), None)))
        return found

    def _turn_above(self, record: SpanRecord, ids: set[str]) -> str | None:
        """Return the outermost turn around a turn, within their activation."""
        found = None
        above = record.parent_id
        for _ in range(len(self.by_id)):
            holder = self.by_id.get(above) if above is not None else None
            if holder is None or a.OPENS in holder.attributes:
                break
            if above in ids:
                found = above
            above = holder.parent_id
        return found

    def _turn(self, record: SpanRecord, owner: str, usage: _Usage, event_id: str) -> Turn:
        found = record.attributes
        holder = self.by_id.get(owner)
        of_agent: Mapping[str, Any] = {} if holder is None else holder.attributes
        reasons = self._texts(found, a.FINISH_REASONS)
        return Turn(
            id=record.span_id,
            activation=owner,
            agent=_word(of_agent, a.AGENT_NAME) or _word(found, a.AGENT_NAME),
            instance=_word(of_agent, a.INSTANCE),
            t=max(record.start - self.origin, 0) / _NANO,
            duration_s=max(record.end - record.start, 0) / _NANO,
            model=_word(found, a.RESPONSE_MODEL) or _word(found, a.REQUEST_MODEL),
            provider=_word(found, a.PROVIDER),
            input_tokens=usage[0],
            output_tokens=usage[1],
            finish_reason=reasons[0] if reasons else None,
            status=_status(record),
            event=event_id,
            prompt_ref=_word(found, a.PROMPT_REF),
            completion_ref=_word(found, a.COMPLETION_REF),
        )

    def _finish(self, stop: Event) -> Trace:
        root: Mapping[str, Any] = {} if self.root is None else self.root.attributes
        given, is_whole = _given(root.get(a.REWARD_RECORDS))
        if not is_whole:
            self.flags.add("rewards_unreadable")
        events = [row[3] for row in self.rows]
        if self.records:
            first = events[0] if events else stop
            self.keys[first.id]["start_unix_nano"] = self.origin
        keys = self.keys[stop.id]
        keys["revision"] = 0
        keys["flags"] = sorted(self.flags)
        # Last, where scoring puts them too: a scored trace is read again as it was.
        if given:
            keys["reward_records"] = [reward.to_dict() for reward in given]
        verbs = [event.keys["verb"] for event in events]
        return Trace(
            trace_id=self.run_id,
            task_id=_word(root, a.TASK_ID) or self.run_id,
            events=(*events, stop),
            edges=tuple(self.edges),
            rewards={reward.component: reward.value for reward in given if reward.unit == "team"},
            costs={
                "tokens": self.tokens,
                "wall_clock_s": stop.t,
                "tool_calls": verbs.count("tool_call"),
                "messages": verbs.count("message"),
            },
            system=_word(root, a.SYSTEM),
            metrics={"turns_without_usage": self.turns_without_usage},
        )


_CLOSING_KEYS: Final[Mapping[str, _Key]] = {
    a.CONTENT_REF_CLOSE: ("content_ref", str),
    a.ERROR_TYPE: ("error_type", str),
}

_TOOL_CLOSING_KEYS: Final[Mapping[str, _Key]] = {**_CLOSING_KEYS, a.TRUSTED: ("trusted", bool)}

_OPENING_KEYS: Final[Mapping[str, _Key]] = {
    a.CAUSALITY: ("causality", str),
    a.ATTEMPT: ("attempt", int),
    a.CONTENT_REF: ("content_ref", str),
    a.TOOL_CALL_ID: ("tool_call_id", str),
    a.RUN_LINKS: ("links", (list, tuple)),
    a.CHANNEL: ("channel", (str, list, tuple)),
}
_MORE: Final = frozenset({*_OPENING_KEYS, *_CLOSING_KEYS})
_TOOL_MORE: Final = frozenset({*_OPENING_KEYS, *_TOOL_CLOSING_KEYS})
"""What activations and tools mostly do not say; to look for it once saves two searches."""

_POINT_KEYS: Final[Mapping[str, _Key]] = {
    **_OPENING_KEYS,
    a.TO: ("to", str),
    a.FROM: ("from", str),
    a.ROLE: ("role", str),
    a.CHOSEN: ("chosen", (str, list, tuple)),
    a.CANDIDATES: ("candidates", (list, tuple)),
    a.DECISION_NAME: ("name", str),
    a.INTERRUPTS: ("interrupts", (list, tuple)),
    a.TRUSTED: ("trusted", bool),
    a.STOP_REASON: ("stop_reason", str),
    a.STOP_DETAIL: ("stop_detail", str),
    a.ERROR_TYPE: ("error_type", str),
}


def _link(item: str) -> Json:
    run, _, event = item.partition(":")
    return {"run": run, "event": event}


def _given(text: Any) -> tuple[list[Reward], bool]:
    """Read the rewards that a root carries, and say whether all could be read."""
    if text is None:
        return [], True
    try:
        records = orjson.loads(text)
        rewards = [Reward.from_dict(record) for record in records]
    except (TypeError, ValueError, AttributeError):
        return [], False
    sound = [reward for reward in rewards if _is_sound(reward)]
    return sound, len(sound) == len(rewards)


def _is_sound(reward: Reward) -> bool:
    words: tuple[Any, ...] = (reward.id, reward.component)
    value: Any = reward.value
    return (
        all(isinstance(word, str) for word in words)
        and isinstance(value, (int, float))
        and isfinite(value)
        and reward.family in FAMILIES
        and reward.unit in UNITS
        and reward.estimator in ESTIMATORS
    )


def _usage(record: SpanRecord) -> _Usage:
    found = record.attributes
    return _tokens(found.get(a.INPUT_TOKENS)), _tokens(found.get(a.OUTPUT_TOKENS))


def _tokens(count: Any) -> int | None:
    """Return a count of tokens; None where it is none, which is not to say 0."""
    if count.__class__ is float and count.is_integer():
        count = int(count)  # languages without integers send these
    return count if count.__class__ is int and 0 <= count <= _MOST_TOKENS else None


def _life(record: SpanRecord) -> Json:
    """Return the role, the activation and the instance, as an opening and a closing name them."""
    found = record.attributes
    keys: Json = {"role": str(found[a.ROLE])} if a.ROLE in found else {}
    keys["activation"] = record.span_id
    if a.INSTANCE in found:
        keys["instance"] = str(found[a.INSTANCE])
    return keys


def _status(record: SpanRecord) -> str:
    status = record.attributes.get(a.STATUS)
    if status.__class__ is str and status in STATUSES:
        return str(status)
    return "error" if record.is_error else "ok"


def _above(record: SpanRecord) -> str | None:
    """Return the id of the span that a span says it belongs to."""
    named = record.attributes.get(a.ACTIVATION)
    return named if named.__class__ is str else record.parent_id


def _word(found: Mapping[str, Any], key: str) -> str | None:
    word = found.get(key)
    return word if isinstance(word, str) and word else None


def _text(found: Mapping[str, Any], key: str) -> str:
    word = found.get(key)
    return word if word.__class__ is str and word else str(word or "unknown")


_canonical: Final = attrgetter("start", "span_id")


def _fullness(record: SpanRecord) -> tuple[int, int, int, str]:
    """How much one of several versions of a span says; the same for none that differ."""
    held = sorted(record.attributes.items())
    rest = (record.parent_id, record.is_error, record.links_dropped, record.attributes_dropped)
    return (len(held), record.end, record.start, repr((held, rest)))
