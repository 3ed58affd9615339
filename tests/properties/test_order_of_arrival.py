"""Whatever way spans come, in whatever order, the same run gives the same trace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import context as otel_context
from opentelemetry import trace

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp, schema, spans
from orchtrace_otel.builder import SpanRecord, build, foreign_attributes, is_ours
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.testing import Captured, capture

pytest.importorskip("opentelemetry.exporter.otlp.proto.common")

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

# --- random runs: a program is a tree of steps --------------------------------------------

_LEAVES = st.sampled_from(
    [
        "tool",
        "failing_tool",
        "chat",
        "twins",
        "turn",
        "failing_turn",
        "cached",
        "message",
        "decide",
        "spawn",
        "reward",
        "stop",
    ]
)
_NAMES = st.sampled_from(["critic", "writer", "Zoë"])


def _nested(steps: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inner = st.lists(steps, max_size=4)
    return st.one_of(
        st.tuples(st.just("agent"), _NAMES, inner),
        st.tuples(st.just("failing_agent"), _NAMES, inner),
        st.tuples(st.just("gather"), _NAMES, st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("aggregate"), inner),
        st.tuples(st.just("users_span"), inner),
        st.tuples(st.just("stream"), _NAMES, inner),
    )


PROGRAMS = st.lists(st.recursive(_LEAVES, _nested, max_leaves=12), max_size=5)


class StepError(Exception):
    """What a step of a program raises on purpose."""


@orchtrace.tool
def look_up() -> str:
    """A tool that answers."""
    return "found"


@orchtrace.tool
def break_down() -> str:
    """A tool that fails."""
    raise StepError


def _chat(twins: int = 1, **usage: Any) -> None:
    """Call a model as other instrumentations record it, perhaps two at once."""
    facts = {a.OPERATION: "chat", a.REQUEST_MODEL: "m", a.FINISH_REASONS: ("stop",), **usage}
    tracer = trace.get_tracer("other.instrumentation")
    with tracer.start_as_current_span("chat m", attributes=facts):
        if twins > 1:
            _chat(twins - 1, **{a.INPUT_TOKENS: 5, a.OUTPUT_TOKENS: 7})


def _turn(error: Exception | None = None) -> None:
    """Call a model as our adapters record it, below a span of the host's."""
    activation = spans.current()
    assert activation is not None
    with trace.get_tracer("host").start_as_current_span("pool"):
        turn = spans.open_turn(activation, "m", provider="p", context=otel_context.get_current())
        facts = {a.INPUT_TOKENS: 1, a.OUTPUT_TOKENS: 2, a.FINISH_REASONS: ["stop"]}
        turn.close(status="ok" if error is None else "error", error=error, attributes=facts)
        mark = spans.instant(
            activation, "message", to="critic", attributes={a.TURNS: [turn.span_id]}
        )
    assert mark.event_id


def _leaf(step: str) -> None:
    actions: dict[str, Callable[[], object]] = {
        "tool": look_up,
        "failing_tool": break_down,
        "chat": lambda: _chat(**{a.INPUT_TOKENS: 3, a.OUTPUT_TOKENS: 4}),
        "twins": lambda: _chat(2),
        "turn": _turn,
        "failing_turn": lambda: _turn(ValueError()),
        "cached": _chat,
        "message": lambda: orchtrace.message("critic", "hello"),
        "decide": lambda: orchtrace.decide("route", chosen="a", candidates=["a", "b"]),
        "spawn": lambda: orchtrace.spawn("writer"),
        "reward": lambda: orchtrace.record_reward("style", 0.1),
        "stop": lambda: orchtrace.stop("quality_met", "good"),
    }
    with contextlib.suppress(StepError):
        actions[step]()


async def _run(steps: Sequence[Any]) -> None:
    for step in steps:
        if isinstance(step, str):
            _leaf(step)
        else:
            kind, *rest = step
            await KINDS[kind](*rest)


async def _call(name: str, steps: Sequence[Any]) -> None:
    await _agent(name)(steps)


async def _call_failing(name: str, steps: Sequence[Any]) -> None:
    with contextlib.suppress(StepError):
        await _agent(name, fails=True)(steps)


async def _gather(name: str, branches: Sequence[Sequence[Any]]) -> None:
    await asyncio.gather(*(_agent(name)(steps) for steps in branches))


async def _aggregate(steps: Sequence[Any]) -> None:
    with orchtrace.aggregate():
        await _run(steps)


async def _in_users_span(steps: Sequence[Any]) -> None:
    with trace.get_tracer("host").start_as_current_span("users"):
        await _run(steps)


async def _read_stream(name: str, steps: Sequence[Any]) -> None:
    async for _ in _stream(name)(steps):
        await asyncio.sleep(0)


KINDS: dict[str, Callable[..., Any]] = {
    "agent": _call,
    "failing_agent": _call_failing,
    "gather": _gather,
    "aggregate": _aggregate,
    "users_span": _in_users_span,
    "stream": _read_stream,
}


def _agent(name: str, *, fails: bool = False) -> Callable[[Sequence[Any]], Any]:
    @orchtrace.agent(name, role="executor")
    async def work(steps: Sequence[Any]) -> None:
        await _run(steps)
        await asyncio.sleep(0)
        if fails:
            raise StepError

    return work


def _stream(name: str) -> Callable[[Sequence[Any]], Any]:
    @orchtrace.agent(name)
    async def flow(steps: Sequence[Any]) -> Any:
        for step in steps:
            await _run([step])
            yield step

    return flow


def run_program(program: Sequence[Any], *, reward: bool, functions: bool) -> Captured:
    """Run a program as a team, and return what was captured of it."""

    @orchtrace.team("team", task_id="task", reward=(lambda result: 0.25) if reward else None)
    async def team() -> None:
        await _run(program)

    with capture() as captured:
        if functions:
            captured.pipeline._rewards = REWARDS
        asyncio.run(team())
    return captured


REWARDS: list[Any] = [
    ("events", lambda t: len(t.events) / 3),
    ("style", lambda t: Reward(id="judged", component="style", value=1, unit="team", family="R2")),
    ("broken", lambda t: float("nan")),
]

# --- ways for spans to come ---------------------------------------------------------------


def record(span: ReadableSpan) -> SpanRecord:
    """A finished span of the SDK as the builder takes it."""
    found = dict(span.attributes or {})
    return SpanRecord(
        f"{span.context.span_id:016x}",
        None if span.parent is None else f"{span.parent.span_id:016x}",
        span.start_time or 0,
        span.end_time or 0,
        found if is_ours(found) else foreign_attributes(found),
        not span.status.is_ok,
        span.dropped_links,
        span.dropped_attributes,
    )


def json_request(spans: Sequence[ReadableSpan], *, state: bool) -> str:
    """A request in OTLP JSON: hexadecimal ids, 64-bit integers as texts, maybe tracestates."""
    written = [_json_span(span, state=state) for span in spans]
    scopes = [{"scope": {"name": "any"}, "spans": written}]
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]})


def _json_span(span: ReadableSpan, *, state: bool) -> dict[str, Any]:
    written: dict[str, Any] = {
        "traceId": f"{span.context.trace_id:032X}",
        "spanId": f"{span.context.span_id:016X}",
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": [
            {"key": key, "value": _json_value(value)} for key, value in span.attributes.items()
        ],
        "status": {} if span.status.is_ok else {"code": 2},
    }
    if state:
        written["traceState"] = span.context.trace_state.to_header()
    if span.parent is not None:
        written["parentSpanId"] = f"{span.parent.span_id:016x}"
    return written


def _json_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": int(value) if value.is_integer() else value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_json_value(one) for one in value]}}


def in_parts(spans: Sequence[ReadableSpan], chance: random.Random) -> list[list[ReadableSpan]]:
    """Shuffle spans, send some of them twice, and split them into several requests."""
    sent = [*spans, *chance.sample(spans, len(spans) // 3)]
    chance.shuffle(sent)
    cut = sorted(chance.randrange(len(sent) + 1) for _ in range(2))
    return [sent[: cut[0]], sent[cut[0] : cut[1]], sent[cut[1] :]]


PUBLISHED = jsonschema.Draft202012Validator(schema.trace_schema())


def assert_conforms(one: Trace) -> None:
    """Nothing at all is wrong with a trace: by our rules, and by the published schema."""
    document = json.loads(one.to_json())
    assert list(schema.check(document)) == []
    assert list(PUBLISHED.iter_errors(document)) == []


@given(
    program=PROGRAMS,
    reward=st.booleans(),
    functions=st.booleans(),
    chance=st.randoms(use_true_random=False),
)
def test_inline_and_received_are_the_same(
    program: list[Any], reward: bool, functions: bool, chance: random.Random
) -> None:
    """A trace built while it ran is, bit for bit, the one built of its spans however they come."""
    captured = run_program(program, reward=reward, functions=functions)
    inline = captured.trace
    assert_conforms(inline)
    assert {"late_spans", "orphans", "missing_causes", "no_stop", "garbled"}.isdisjoint(
        inline.flags
    )
    text = inline.to_json()

    parts = in_parts(captured.spans, chance)
    records = [record(span) for part in parts for span in part]
    scored = score(build(inline.trace_id, records), REWARDS if functions else ())
    assert scored.to_json() == text
    of_protobuf = [
        one for part in parts for one in otlp.read_protobuf(encode_spans(part).SerializeToString())
    ]
    assert [one.to_json() for one in otlp.traces(of_protobuf)] == [text]
    for state in (True, False):
        lines = "\n".join(json_request(part, state=state) for part in parts)
        assert [one.to_json() for one in otlp.traces(otlp.read_lines(lines))] == [text]


@given(program=PROGRAMS)
@settings(max_examples=20)
def test_spans_of_older_senders_are_read_as_well(program: list[Any]) -> None:
    """They had the run's id on each span but a turn's, and no verb on a tool's."""
    captured = run_program(program, reward=False, functions=False)
    (inline,) = captured.traces
    request = json.loads(json_request(captured.spans, state=False))
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        said = {one["key"]: one for one in span["attributes"]}
        verb = said.get(a.VERB, {"value": {"stringValue": ""}})["value"]["stringValue"]
        if verb != a.TURN and said.keys() & {a.VERB, a.OPENS}:
            said[a.RUN_ID] = {"key": a.RUN_ID, "value": {"stringValue": inline.trace_id}}
        if verb == a.TOOL_CALL:
            del said[a.VERB]
        span["attributes"] = list(said.values())
    (received,) = otlp.traces(otlp.read_json(json.dumps(request)))
    assert received.to_json() == inline.to_json()


@given(program=PROGRAMS, chance=st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_part_of_a_run_gives_a_sound_trace_that_says_so(
    program: list[Any], chance: random.Random
) -> None:
    """Whichever spans never come, what is built of the rest conforms and says what it lacks."""
    captured = run_program(program, reward=False, functions=False)
    whole = captured.trace
    kept = chance.sample(captured.spans, chance.randrange(1, len(captured.spans) + 1))
    state = chance.choice((True, False))
    parts = otlp.traces(otlp.read_json(json_request(kept, state=state)))
    # Without a tracestate the root has to be there: it alone names its run in an attribute.
    is_told = state and any(is_ours(span.attributes) for span in kept)
    assert len(parts) == 1 or not is_told
    for part in parts:
        assert_conforms(part)
        assert part.trace_id == whole.trace_id
        came = _ids(part)
        lacks_cause = any(edge.dst in came and edge.src not in came for edge in whole.edges)
        assert ("missing_causes" in part.flags) == lacks_cause
        is_root_here = any(span.name == "invoke_workflow team" for span in kept)
        assert ("no_root" in part.flags) == (not is_root_here)


def _ids(one: Trace) -> set[str]:
    return {event.id for event in one.events}


@given(program=PROGRAMS, chance=st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_runs_of_one_otel_trace_stay_apart(program: list[Any], chance: random.Random) -> None:
    """Two runs below one span of the host are two traces, each the one that it was inline."""

    @orchtrace.team("inner")
    async def team() -> None:
        await _run(program)

    async def both() -> None:
        with trace.get_tracer("host").start_as_current_span("request"):
            await asyncio.gather(team(), team())

    with capture() as captured:
        asyncio.run(both())
    spans = captured.spans
    chance.shuffle(spans)
    data = encode_spans(spans).SerializeToString()
    received = otlp.traces(otlp.read_protobuf(data))
    assert len({one.trace_id.partition("-")[0] for one in received}) == 1
    assert sorted(one.to_json() for one in received) == sorted(
        one.to_json() for one in captured.traces
    )
