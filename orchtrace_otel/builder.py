"""Finished spans to a Trace, the same bit for bit in any order of arrival.

Spans are taken as light records: integers and strings, nothing of the host's. When a
run closes they are put in canonical order (start, span id) and become events and
edges. The same function serves the process that made the spans and whoever received
them over OTLP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.model import VERBS, Edge, Event, Json, Reward, Trace, Turn

_NANO: Final = 1_000_000_000
_OPENING, _POINT, _CLOSING = 0, 1, 2


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
        ordered = sorted(records, key=_canonical)
        self.by_id = {record.span_id: record for record in ordered}
        if len(self.by_id) != len(ordered):
            self.flags.add("duplicate_spans")
        self.records = list(self.by_id.values())
        self.root_id = run_id.rpartition("-")[2]
        self.root = self.by_id.get(self.root_id)
        self.origin = (self.root or self.records[0]).start if self.records else 0
        self.owners: dict[str, str] = {}
        self.rows: list[tuple[int, int, str, Event]] = []
        self.keys: dict[str, Json] = {}
        self.incoming: list[tuple[str, Sequence[str]]] = []
        self.edges: list[Edge] = []
        self.turns: list[SpanRecord] = []
        self.claims: dict[str, str] = {}
        self.stop: SpanRecord | None = None
        self.last = self.origin

    def trace(self) -> Trace:
        for record in self.records:
            self._take(record)
        self.rows.sort(key=_in_order)
        stop = self._stop_event()
        self._connect()
        self._count(stop)
        return self._finish(stop)

    def _take(self, record: SpanRecord) -> None:
        found = record.attributes
        if record.links_dropped:
            self.flags.add("links_cut")
        if record.attributes_dropped and a.RUN_ID in found:
            self.flags.add("attributes_evicted")
        if a.OPENS in found:
            self._take_activation(record)
        elif a.VERB in found:
            if found[a.VERB] == "stop":
                self.stop = record
            else:
                self._take_point(record)
        elif a.OPERATION in found:
            if found[a.OPERATION] in a.TURN_OPERATIONS:
                self.turns.append(record)
            elif a.RUN_ID in found:
                self._take_tool(record)

    def _take_activation(self, record: SpanRecord) -> None:
        found = record.attributes
        span_id = record.span_id
        agent = _text(found, a.AGENT_NAME)
        opens = str(found[a.OPENS])
        keys: Json = {"verb": opens}
        is_root = span_id == self.root_id
        if is_root:
            caller = "user"
            keys["start_unix_nano"] = record.start
        else:
            parent = self._owner(record)
            holder = self.by_id.get(parent)
            caller = found.get(a.BY) or ("unknown" if holder is None else _text(holder.attributes, a.AGENT_NAME))
            keys["parent"] = parent
        if opens == "begin":
            keys["from"] = caller
        keys["to"] = agent
        if a.ROLE in found:
            keys["role"] = found[a.ROLE]
        keys["activation"] = span_id
        if a.INSTANCE in found:
            keys["instance"] = found[a.INSTANCE]
        keys["status"] = "ok"
        _copy(found, keys, _OPENING_KEYS)
        self._add(record.start, _OPENING, span_id + ".open", opens, caller, keys)
        self._incoming(span_id + ".open", found, a.EDGES)
        if is_root:
            return
        keys = {"verb": "return", "from": agent, "to": caller}
        if a.ROLE in found:
            keys["role"] = found[a.ROLE]
        keys["activation"] = span_id
        if a.INSTANCE in found:
            keys["instance"] = found[a.INSTANCE]
        keys["status"] = _status(record)
        if a.CONTENT_REF_CLOSE in found:
            keys["content_ref"] = found[a.CONTENT_REF_CLOSE]
        if a.ERROR_TYPE in found:
            keys["error_type"] = found[a.ERROR_TYPE]
        self._add(record.end, _CLOSING, span_id + ".close", "return", agent, keys)
        self._incoming(span_id + ".close", found, a.EDGES_CLOSE)
        self.edges.append(Edge(span_id + ".open", span_id + ".close", "causal"))

    def _take_tool(self, record: SpanRecord) -> None:
        found = record.attributes
        span_id = record.span_id
        agent = _text(found, a.AGENT_NAME)
        tool = _text(found, a.TOOL_NAME)
        keys: Json = {"verb": "tool_call", "tool": tool}
        self._place(record, keys)
        keys["status"] = "ok"
        _copy(found, keys, _OPENING_KEYS)
        opened, closed = span_id + ".open", span_id + ".close"
        self._add(record.start, _OPENING, opened, "tool_call", agent, keys)
        self._incoming(opened, found, a.EDGES)
        self._claim(opened, found)
        result: Json = {
            "verb": "tool_result",
            "tool": tool,
            **{key: keys[key] for key in ("activation", "instance", "tool_call_id") if key in keys},
            "status": _status(record),
        }
        if a.TRUSTED in found:
            result["trusted"] = found[a.TRUSTED]
        if a.CONTENT_REF_CLOSE in found:
            result["content_ref"] = found[a.CONTENT_REF_CLOSE]
        if a.ERROR_TYPE in found:
            result["error_type"] = found[a.ERROR_TYPE]
        self._add(record.end, _CLOSING, closed, "tool_result", agent, result)
        self._incoming(closed, found, a.EDGES_CLOSE)
        self.edges.append(Edge(opened, closed, "causal"))

    def _take_point(self, record: SpanRecord) -> None:
        found = record.attributes
        verb = str(found[a.VERB])
        agent = _text(found, a.AGENT_NAME)
        keys: Json = {"verb": verb}
        if verb == "message":
            keys["from"] = agent
        self._place(record, keys)
        keys["status"] = _status(record)
        if record.end > record.start:
            keys["duration_s"] = (record.end - record.start) / _NANO
        _copy(found, keys, _POINT_KEYS)
        self._add(record.start, _POINT, record.span_id, verb, agent, keys)
        self._incoming(record.span_id, found, a.EDGES)
        self._claim(record.span_id, found)

    def _place(self, record: SpanRecord, keys: Json) -> None:
        """Name the activation that an event belongs to, and the instance that works in it."""
        owner = self._owner(record)
        keys["activation"] = owner
        holder = self.by_id.get(owner)
        if holder is not None and a.INSTANCE in holder.attributes:
            keys["instance"] = holder.attributes[a.INSTANCE]

    def _add(self, at: int, rank: int, event_id: str, verb: str, agent: str, keys: Json) -> None:
        kind, decision = VERBS.get(verb, ("orchestrator_decision", None))
        if decision is not None:
            keys["decision"] = decision
        self.last = max(self.last, at)
        if at < self.origin:
            self.flags.add("skewed")
            at = self.origin
        if self.root is not None and at > self.root.end:
            keys["late"] = True
            self.flags.add("late_spans")
        self.keys[event_id] = keys
        self.rows.append((at, rank, event_id, Event(event_id, (at - self.origin) / _NANO, kind, agent, keys)))

    def _owner(self, record: SpanRecord) -> str:
        """Return the span id of the nearest activation above a span; the root's if none is in sight."""
        named = record.attributes.get(a.ACTIVATION)
        above = named if named is not None else record.parent_id
        return self._activation_at(above, record.span_id)

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
                found = span_id
                break
            path.append(span_id)
            if len(path) > len(self.by_id) + 1:
                self.flags.add("cyclic_parents")
                break
            span_id = record.attributes.get(a.ACTIVATION) or record.parent_id
        for passed in path[1:]:
            owners[passed] = found
        return found

    def _incoming(self, event_id: str, found: Mapping[str, Any], key: str) -> None:
        items = found.get(key)
        if items:
            self.incoming.append((event_id, items))

    def _claim(self, event_id: str, found: Mapping[str, Any]) -> None:
        """Note which turns an event came from; the first event takes a turn's tokens."""
        for turn in found.get(a.TURNS, ()):
            self.claims.setdefault(turn, event_id)

    def _stop_event(self) -> Event:
        root, record = self.root, self.stop
        agent = "unknown" if root is None else _text(root.attributes, a.AGENT_NAME)
        keys: Json = {"verb": "stop"}
        if record is None:
            self.flags.add("no_stop" if root is not None else "no_root")
            at, event_id = self.last, self.root_id + ".stop"
            keys |= {"activation": self.root_id, "status": "ok", "stop_reason": "unknown", "causality": "inferred"}
        else:
            if root is None:
                self.flags.add("no_root")
            at, event_id = record.start, record.span_id
            self._place(record, keys)
            keys["status"] = _status(record)
            _copy(record.attributes, keys, _POINT_KEYS)
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
                kind, _, named = item.partition(":")
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
        records: list[Json] = []
        known = unknown = 0
        for record, usage in turns:
            owner = self._owner(record)
            closing = owner + ".close"
            event_id = self.claims.get(record.span_id) or (closing if closing in self.keys else stop.id)
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

    def _distinct_turns(self) -> list[tuple[SpanRecord, tuple[int | None, int | None]]]:
        """Return each LLM call once: two instrumentations of one call nest, and the outer counts."""
        inside: dict[str, list[SpanRecord]] = {}
        outer: list[SpanRecord] = []
        ids = {record.span_id for record in self.turns}
        for record in self.turns:
            above = self._turn_above(record, ids)
            if above is None:
                outer.append(record)
            else:
                inside.setdefault(above, []).append(record)
        distinct: list[tuple[SpanRecord, tuple[int | None, int | None]]] = []
        for record in outer:
            tellers = [record, *inside.get(record.span_id, ())]
            usage = next((u for u in map(_usage, tellers) if u != (None, None)), (None, None))
            distinct.append((record, usage))
        return distinct

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

    def _turn(
        self, record: SpanRecord, owner: str, usage: tuple[int | None, int | None], event_id: str
    ) -> Turn:
        found = record.attributes
        holder = self.by_id.get(owner)
        of_agent: Mapping[str, Any] = {} if holder is None else holder.attributes
        reasons = found.get(a.FINISH_REASONS)
        return Turn(
            id=record.span_id,
            activation=owner,
            agent=of_agent.get(a.AGENT_NAME) or found.get(a.AGENT_NAME),
            instance=of_agent.get(a.INSTANCE),
            t=max(record.start - self.origin, 0) / _NANO,
            duration_s=max(record.end - record.start, 0) / _NANO,
            model=found.get(a.RESPONSE_MODEL) or found.get(a.REQUEST_MODEL),
            provider=found.get(a.PROVIDER),
            input_tokens=usage[0],
            output_tokens=usage[1],
            finish_reason=str(reasons[0]) if reasons else None,
            status=_status(record),
            event=event_id,
            prompt_ref=found.get(a.PROMPT_REF),
            completion_ref=found.get(a.COMPLETION_REF),
        )

    def _finish(self, stop: Event) -> Trace:
        root: Mapping[str, Any] = {} if self.root is None else self.root.attributes
        given = _given(root.get(a.REWARD_RECORDS))
        self.flags.update(root.get(a.FLAGS, ()))
        keys = self.keys[stop.id]
        if given:
            keys["reward_records"] = [reward.to_dict() for reward in given]
        keys["revision"] = 0
        keys["flags"] = sorted(self.flags)
        events = [row[3] for row in self.rows]
        verbs = [event.keys["verb"] for event in events]
        return Trace(
            trace_id=self.run_id,
            task_id=root.get(a.TASK_ID) or self.run_id,
            events=(*events, stop),
            edges=tuple(self.edges),
            rewards={reward.component: reward.value for reward in given if reward.unit == "team"},
            costs={
                "tokens": self.tokens,
                "wall_clock_s": stop.t,
                "tool_calls": verbs.count("tool_call"),
                "messages": verbs.count("message"),
            },
            system=root.get(a.SYSTEM),
            metrics={"turns_without_usage": self.turns_without_usage},
        )


_OPENING_KEYS: Final = {
    a.CAUSALITY: "causality",
    a.ATTEMPT: "attempt",
    a.CONTENT_REF: "content_ref",
    a.TOOL_CALL_ID: "tool_call_id",
    a.RUN_LINKS: "links",
}

_POINT_KEYS: Final = _OPENING_KEYS | {
    a.TO: "to",
    a.FROM: "from",
    a.ROLE: "role",
    a.CHOSEN: "chosen",
    a.CANDIDATES: "candidates",
    a.DECISION_NAME: "name",
    a.CHANNEL: "channel",
    a.TRUSTED: "trusted",
    a.STOP_REASON: "stop_reason",
    a.STOP_DETAIL: "stop_detail",
    a.ERROR_TYPE: "error_type",
}


def _copy(found: Mapping[str, Any], keys: Json, table: Mapping[str, str]) -> None:
    for attribute, value in found.items():
        key = table.get(attribute)
        if key is not None:
            keys[key] = [*value] if isinstance(value, tuple) else value
    links = keys.get("links")
    if links:
        keys["links"] = [_link(item) for item in links]


def _link(item: str) -> Json:
    run, _, event = item.partition(":")
    return {"run": run, "event": event}


def _given(text: Any) -> list[Reward]:
    return [Reward.from_dict(record) for record in orjson.loads(text)] if text else []


def _usage(record: SpanRecord) -> tuple[int | None, int | None]:
    found = record.attributes
    return found.get(a.INPUT_TOKENS), found.get(a.OUTPUT_TOKENS)


def _status(record: SpanRecord) -> str:
    return str(record.attributes.get(a.STATUS) or ("error" if record.is_error else "ok"))


def _text(found: Mapping[str, Any], key: str) -> str:
    return str(found.get(key) or "unknown")


def _canonical(record: SpanRecord) -> tuple[int, str]:
    return (record.start, record.span_id)


def _in_order(row: tuple[int, int, str, Event]) -> tuple[int, int, str]:
    return row[:3]
