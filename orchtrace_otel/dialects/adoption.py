"""A trace of others as the spans that we would have written of the same run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign, SpanRecord, build, distinct
from orchtrace_otel.dialects.clocks import settle
from orchtrace_otel.dialects.flow import Back, Flow
from orchtrace_otel.dialects.handoffs import match
from orchtrace_otel.dialects.owners import find_owners
from orchtrace_otel.dialects.scene import ACTIVATIONS, INTERVALS, Scene
from orchtrace_otel.model import Json, Trace

PASSED_THROUGH: Final = "spans_passed_through"
"""The metric that counts the spans of which no event and no turn came."""

_INFERRED: Final = "inferred"
_POINTS: Final = {
    "handoff": "delegate",
    "spawn": "spawn",
    "decide": "decide",
    "guard": "safety_event",
}
_OF_RUNS: Final = frozenset((*INTERVALS, "handoff"))

_OUTCOME: Final = (a.STATUS, a.ERROR_TYPE)
_TURN: Final = (
    a.PROVIDER,
    a.REQUEST_MODEL,
    a.RESPONSE_MODEL,
    a.INPUT_TOKENS,
    a.OUTPUT_TOKENS,
    a.FINISH_REASONS,
    a.STATUS,
)


class Adopted(NamedTuple):
    """A run of others.

    Attributes:
        run_id: `<OTel trace id>-<root span id>`.
        records: What we would have written of it, and what passes through.
        passed_through: How many spans say nothing of orchestration.
        flags: What is known to be odd.
    """

    run_id: str
    records: list[SpanRecord]
    passed_through: int
    flags: tuple[str, ...]

    def trace(self) -> Trace:
        """Build its trace, which is not scored yet."""
        built = build(self.run_id, self.records, self.flags)
        metrics = {**(built.metrics or {}), PASSED_THROUGH: self.passed_through}
        return replace(built, metrics=metrics)


def adopt(trace_id: str, records: Iterable[SpanRecord]) -> Adopted | None:
    """Read a trace that holds no span of ours; None where it says nothing of orchestration.

    Args:
        trace_id: Its id, 32 hexadecimal digits.
        records: All spans of it that are known, in any order.
    """
    by_id, differing = distinct(records)
    kinds = {record.foreign.kind for record in by_id.values() if record.foreign is not None}
    if _OF_RUNS.isdisjoint(kinds) and not {"step", "turn"} <= kinds:
        return None  # calls of models alone, a chain without one, a definition: no team at work
    scene = Scene(settle(by_id))
    return _Adoption(trace_id, scene).adopted(("duplicate_spans",) if differing else ())


class _Adoption:
    """One run being adopted: what we would have written, span by span."""

    def __init__(self, trace_id: str, scene: Scene) -> None:
        self.scene = scene
        self.by_id = scene.by_id
        self.root_id = scene.root_id
        self.run_id = f"{trace_id}-{scene.root_id}"
        self.guessed = find_owners(scene)
        self.written: dict[str, Json] = {}
        self.added: list[SpanRecord] = []
        self._flows: dict[str, Flow] = {}
        self._lives: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._numbers: dict[str, int] = {}
        self._names = {
            key: str(one.attributes[a.AGENT_NAME])
            for key, one in scene.spans.items()
            if one.kind in ACTIVATIONS
        }
        self._names[self.root_id] = self._name_root()
        self._asked = {call: key for key, one in scene.spans.items() for call in one.calls}
        self._received = match(scene.spans, self.by_id, self._sender)
        self._takers = {one.cause: agent for agent, one in self._received.items()}

    def adopted(self, flags: tuple[str, ...]) -> Adopted:
        """Write what begins, then what ends, then the stop."""
        self._begin()
        for key, one in self.scene.spans.items():
            if key != self.root_id:
                self._open(key, one)
        intervals = [key for key, one in self.scene.spans.items() if one.kind in INTERVALS]
        for key in sorted(intervals, key=lambda key: (self.by_id[key].end, key)):
            if key != self.root_id:
                self._close(key)
        if self.root_id in self.by_id:
            self._stop(self.by_id[self.root_id])
        records = [
            replace(record, attributes=self.written.get(key, {}), foreign=None)
            for key, record in self.by_id.items()
        ]
        passed = len(self.by_id.keys() - self.written.keys())
        return Adopted(self.run_id, [*records, *self.added], passed, flags)

    def _name_root(self) -> str:
        found = self.scene.spans.get(self.root_id)
        said: Json = {} if found is None else dict(found.attributes)
        return str(said.get(a.AGENT_NAME) or said.get(a.TOOL_NAME) or "unknown")

    def _sender(self, handoff: str) -> str:
        """Return the name of the agent that hands over."""
        named = self.scene.spans[handoff].attributes.get(a.AGENT_NAME)
        return str(named or self._names[self._owner(handoff)])

    def _owner(self, key: str) -> str:
        return self.guessed.get(key) or self.scene.owner(key)

    def _scope(self, key: str) -> str:
        return self.guessed.get(key) or self.scene.scope(key)

    def _flow(self, scope: str) -> Flow:
        return self._flows.setdefault(scope, Flow(scope + ".open"))

    def _begin(self) -> None:
        """Write the root, whatever it was to its own instrumentation."""
        name = self._names[self.root_id]
        self._numbers[name] = 1
        self.written[self.root_id] = {
            a.RUN_ID: self.run_id,
            a.OPERATION: a.INVOKE_WORKFLOW,
            a.OPENS: "begin",
            a.WORKFLOW_NAME: name,
            a.AGENT_NAME: name,
            a.INSTANCE: f"{name}#1",
        }
        found = self.scene.spans.get(self.root_id)
        if found is not None and found.kind == "turn":
            # A call of a model with nothing around it is its own orchestrator's.
            record = self.by_id[self.root_id]
            said = self._turn(found)
            turn_id = self.root_id + ".turn"
            self.added.append(
                replace(
                    record, span_id=turn_id, parent_id=self.root_id, attributes=said, foreign=None
                )
            )

    def _open(self, key: str, one: Foreign) -> None:
        """Write one span's beginning, and what led to it."""
        if one.kind == "turn":
            self._take_turn(key, one)
            return
        record, scope = self.by_id[key], self._scope(key)
        flow = self._flow(scope)
        came = flow.take(record.start)
        said: Json = {key: one.attributes[key] for key in _OUTCOME if key in one.attributes}
        if one.kind in ACTIVATIONS:
            is_sure = self._write_activation(key, said, came)
        else:
            is_sure = self._write_call(key, one, said, came)
        if not is_sure:
            said[a.CAUSALITY] = _INFERRED
        if key in self.guessed:
            said[a.ACTIVATION] = self.guessed[key]
        self.written[key] = said
        if one.kind in INTERVALS:
            kind = "tool_dependency" if one.kind == "tool" else "return"
            flow.wait_for([Back(_is_back(record), key + ".close", kind)])
        else:
            flow.move(key)

    def _take_turn(self, key: str, one: Foreign) -> None:
        said = self._turn(one)
        if key in self.guessed:
            said[a.ACTIVATION] = self.guessed[key]
            said[a.CAUSALITY] = _INFERRED
        self.written[key] = said
        flow = self._flow(self._scope(key))
        flow.turn, flow.turn_end = key, self.by_id[key].end

    def _turn(self, one: Foreign) -> Json:
        said = {key: one.attributes[key] for key in _TURN if key in one.attributes}
        return {**said, a.OPERATION: a.CHAT, a.VERB: a.TURN}

    def _write_activation(self, key: str, said: Json, came: list[Back]) -> bool:
        """Write an agent at work; return whether its causes are beyond doubt."""
        name, parent = self._names[key], self.scene.owner(key)
        instance, is_new = self._instance(parent, key)
        said |= {a.OPERATION: a.INVOKE_AGENT, a.AGENT_NAME: name, a.INSTANCE: instance}
        received = self._received.get(key)
        if received is None:
            said[a.OPENS] = "spawn" if is_new else "delegate"
            last = self._flow(self._scope(key)).last
            said[a.EDGES] = (f"{'spawn' if is_new else 'causal'}:{last}", *_edges(came))
            return not came
        cause = self.scene.spans[received.cause]
        said[a.OPENS] = "begin"
        said[a.EDGES] = (f"causal:{received.cause}", *_edges(came))
        giver = self._owner(received.cause) + ".close"
        if cause.kind == "handoff":
            said[a.BY] = self._sender(received.cause)
        return received.is_exact and all(back.event == giver for back in came)

    def _write_call(self, key: str, one: Foreign, said: Json, came: list[Back]) -> bool:
        """Write a tool or a point; return whether all that is said of it is beyond doubt."""
        flow = self._flow(self._scope(key))
        said[a.AGENT_NAME] = self._names[self._owner(key)]
        said[a.EDGES] = (f"causal:{flow.last}", *_edges(came))
        asked = self._asked.get(str(one.attributes.get(a.TOOL_CALL_ID)))
        turns = flow.turns(self.by_id[key].start) if asked is None else (asked,)
        if turns:
            said[a.TURNS] = turns
        is_sure = not came and key not in self.guessed
        if one.kind == "tool":
            said[a.OPERATION] = a.EXECUTE_TOOL
            said[a.VERB] = a.TOOL_CALL
            said[a.TOOL_NAME] = one.attributes[a.TOOL_NAME]
            if a.TOOL_CALL_ID in one.attributes:
                said[a.TOOL_CALL_ID] = one.attributes[a.TOOL_CALL_ID]
            return is_sure
        said[a.VERB] = _POINTS[one.kind]
        if a.DECISION_NAME in one.attributes:
            said[a.DECISION_NAME] = one.attributes[a.DECISION_NAME]
        if one.kind == "handoff":
            return self._write_handoff(key, one, said) and is_sure
        if a.TO in one.attributes:
            said[a.TO] = one.attributes[a.TO]
        return is_sure

    def _write_handoff(self, key: str, one: Foreign, said: Json) -> bool:
        """Write who hands over to whom; return whether the span says it all."""
        said[a.AGENT_NAME] = self._sender(key)
        to = one.attributes.get(a.TO)
        if to is None:
            taker = self._takers.get(key)
            said[a.TO] = "unknown" if taker is None else self._names[taker]
            return False
        said[a.TO] = to
        return True

    def _instance(self, parent: str, key: str) -> tuple[str, bool]:
        """Return which life of an agent an activation is, and whether it begins it.

        Calls of one name from one place share a life unless they overlap.
        """
        record, name = self.by_id[key], self._names[key]
        lives = self._lives.setdefault((parent, name), [])
        is_new = not lives or lives[0][0] > record.start
        if is_new:
            self._numbers[name] = number = self._numbers.get(name, 0) + 1
            heapq.heappush(lives, (_is_back(record), number))
        else:
            number = heapq.heapreplace(lives, (_is_back(record), lives[0][1]))[1]
        return f"{name}#{number}", is_new

    def _close(self, key: str) -> None:
        """Write one interval's end, and what led to it."""
        flow = self._flow(key)
        causes = _edges(flow.drain(self.by_id[key].end + 1))
        if flow.last != key + ".open":
            causes = (*causes, f"causal:{flow.last}")
        if causes:
            self.written[key][a.EDGES_CLOSE] = causes
        # What outlives it comes back to what is around it.
        self._flow(self._scope(key)).wait_for(flow.pending)

    def _stop(self, root: SpanRecord) -> None:
        """Add the stop, which no dialect has: the root's end, as far as that tells."""
        flow = self._flow(self.root_id)
        said: Json = {} if root.foreign is None else dict(root.foreign.attributes)
        status = said.get(a.STATUS) or ("error" if root.is_error else "ok")
        came = flow.drain(root.end + 1)
        paused = (self.written[back.event.removesuffix(".close")].get(a.STATUS) for back in came)
        stop: Json = {
            a.VERB: "stop",
            a.AGENT_NAME: self._names[self.root_id],
            a.STATUS: status,
            a.STOP_REASON: "information_complete" if status == "ok" else status,
            a.CAUSALITY: _INFERRED,
            a.EDGES: (f"causal:{flow.last}", *_edges(came)),
        }
        if status == "ok" and "paused" in paused:
            stop[a.STOP_REASON] = "paused"
        if status == "error" and a.ERROR_TYPE in said:
            stop[a.ERROR_TYPE] = said[a.ERROR_TYPE]
        self.added.append(
            SpanRecord(self.root_id + ".stop", self.root_id, root.end, root.end, stop)
        )


def _is_back(record: SpanRecord) -> int:
    """Return when something is back: what took no time is so for its end, not for its like."""
    return record.end + (record.end == record.start)


def _edges(came: Iterable[Back]) -> tuple[str, ...]:
    return tuple(f"{back.type}:{back.event}" for back in came)
