"""A run across processes, by `inject` and `extract` and by plain W3C headers."""

import datetime as dt
import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator, default_getter, default_setter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard, spans
from orchtrace_otel import attributes as a
from orchtrace_otel.builder import SpanRecord, build
from orchtrace_otel.testing import Captured
from tests.trees import recording, tree

CHILD = textwrap.dedent("""
    import json, sys
    import orchtrace_otel as orchtrace
    from opentelemetry import context, propagate, trace
    from orchtrace_otel.testing import capture

    @orchtrace.tool
    def look_up(): ...

    @orchtrace.agent("remote", role="executor")
    def remote():
        look_up()
        run = orchtrace.current_run()
        return run.id

    headers, ways = json.loads(sys.argv[1])
    with capture() as captured:
        if ways == "extract":
            with orchtrace.extract(headers):
                ids = [remote(), remote()]
        elif ways == "instrumented":
            request = propagate.extract(headers)
            with trace.get_tracer("server").start_as_current_span("GET /", request):
                ids = [remote(), remote()]
                assert orchtrace.current_run().id == ids[0]
        else:
            token = context.attach(propagate.extract(headers))
            ids = [remote()]
            context.detach(token)
    print(json.dumps({
        "ids": ids,
        "traces": len(captured.traces),
        "spans": [json.loads(span.to_json()) for span in captured.spans],
    }))
""")


def in_another_process(headers: Any, way: str) -> dict[str, Any]:
    """Call the remote agent in a process of its own, with nothing but headers."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([dict(headers), way])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def of_json(span: dict[str, Any]) -> SpanRecord:
    return SpanRecord(
        span["context"]["span_id"].removeprefix("0x"),
        span["parent_id"].removeprefix("0x") if span["parent_id"] else None,
        nanoseconds(span["start_time"]),
        nanoseconds(span["end_time"]),
        span["attributes"],
    )


def nanoseconds(text: str) -> int:
    since = dt.datetime.fromisoformat(text.replace("Z", "+00:00")) - dt.datetime.fromtimestamp(
        0, dt.UTC
    )
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def of_span(span: ReadableSpan) -> SpanRecord:
    record = of_json(json.loads(span.to_json()))
    record.attributes = dict(span.attributes or {})
    return record


def put_together(captured: Captured, answer: dict[str, Any]) -> Any:
    """Build one trace of the spans of both processes."""
    records = [of_span(span) for span in captured.spans]
    records += [of_json(span) for span in answer["spans"]]
    return build(captured.trace.trace_id, records)


@pytest.mark.parametrize("way", ["extract", "instrumented"])
def test_a_run_goes_on_in_another_process(way: str) -> None:
    """The callee's agents belong to the caller's run, and follow as if they were called here."""
    answers: list[dict[str, Any]] = []

    @orchtrace.agent
    def caller() -> None:
        answers.append(in_another_process(orchtrace.inject(), way))

    @orchtrace.team
    def team() -> None:
        caller()

    with recording(deterministic=False) as captured:
        team()
    assert answers[0]["ids"] == [captured.trace.trace_id] * 2
    assert answers[0]["traces"] == 0
    whole = put_together(captured, answers[0])
    assert whole.flags == ()
    lives = {event["instance"] for event in whole.events if event.get("to") == "remote"}
    assert len(lives) == 1
    assert tree(whole).replace(lives.pop(), "remote#1") == (
        "team#1 begin\n"
        "  caller#1 spawn < spawn team#1.open\n"
        "    remote#1 spawn as executor < spawn caller#1.open\n"
        "      look_up.open < causal remote#1.open\n"
        "      look_up.close\n"
        "    remote#1.close < tool_dependency look_up.close\n"
        "    remote#1:2 delegate as executor < causal caller#1.open, return remote#1.close\n"
        "      look_up:2.open < causal remote#1:2.open\n"
        "      look_up:2.close\n"
        "    remote#1:2.close < tool_dependency look_up:2.close\n"
        "  caller#1.close\n"
        "  stop information_complete < return caller#1.close"
    )


def test_plain_w3c_headers_of_a_span_below_the_root_carry_the_run() -> None:
    """An instrumented HTTP client needs nothing of ours: its span's tracestate has the run."""
    answers: list[dict[str, Any]] = []

    @orchtrace.team
    def team() -> None:
        tracer = trace.get_tracer("http client")
        with tracer.start_as_current_span("POST"):
            headers: dict[str, str] = {}
            propagate.inject(headers)
            answers.append(in_another_process(headers, "plain"))

    with recording(deterministic=False) as captured:
        team()
    assert answers[0]["ids"] == [captured.trace.trace_id]
    whole = put_together(captured, answers[0])
    assert whole.flags == ()
    assert [event["parent"] for event in whole.events if event.get("to") == "remote"] == [
        whole.events[0]["activation"]
    ]
    assert "remote#" in tree(whole)


def test_headers_without_a_run_begin_one_of_their_own() -> None:
    """The callee's run has a root below the caller's span, in the caller's OTel trace."""
    tracer = trace.get_tracer("someone else")
    with recording() as captured:
        tracer = captured.provider.get_tracer("someone else")
        with tracer.start_as_current_span("request") as request:
            headers: dict[str, str] = {}
            propagate.inject(headers)
        with orchtrace.extract(headers):
            orchtrace.agent("alone")(lambda: None)()
    root = next(span for span in captured.spans if span.name == "invoke_workflow alone")
    assert root.parent is not None
    assert root.parent.span_id == request.get_span_context().span_id
    assert "alone" in tree(captured.trace)


def test_inject_outside_a_run_is_what_the_propagators_do() -> None:
    """Nothing of ours is written, and the carrier is the one that was given."""
    carrier: dict[str, str] = {}
    assert orchtrace.inject(carrier) is carrier
    assert carrier == {}


def test_inject_keeps_what_others_wrote_into_tracestate() -> None:
    """Ours is one entry among theirs."""
    seen: list[str] = []

    @orchtrace.team
    def team() -> None:
        seen.append(orchtrace.inject()["tracestate"])

    headers = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "vendor=x"}
    with recording(), orchtrace.extract(headers):
        team()
    entries = dict(entry.split("=") for entry in seen[0].split(","))
    assert entries == {"vendor": "x", a.TRACESTATE_KEY: entries[a.TRACESTATE_KEY]}


def test_extract_leaves_the_context_as_it_was() -> None:
    """On every way out."""
    headers = {
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "tracestate": f"orchtrace={'c' * 16}",
    }

    def fail() -> None:
        with orchtrace.extract(headers):
            assert orchtrace.current_run() is not None
            raise KeyError

    before = otel_context.get_current()
    with recording():
        with orchtrace.extract({}):
            pass
        with pytest.raises(KeyError):
            fail()
        assert otel_context.get_current() is before


@pytest.mark.parametrize("state", ["orchtrace=", "orchtrace=zz", "orchtrace=" + "c" * 200, "x"])
def test_a_malformed_run_in_tracestate_is_no_run(state: str) -> None:
    """What a stranger wrote there must not become a run's id: a run of one's own begins."""
    headers = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": state}
    with recording() as captured, orchtrace.extract(headers):
        orchtrace.agent("alone")(lambda: None)()
    assert len(captured.traces) == 1


@pytest.mark.parametrize("spell", [str.title, str.upper, str.lower])
def test_headers_are_taken_in_any_case(spell: Any) -> None:
    """HTTP servers hand them on as they came, or as they like them."""
    headers = {
        spell("traceparent"): f"00-{'a' * 32}-{'b' * 16}-01",
        spell("tracestate"): f"orchtrace={'c' * 16}",
    }
    with recording(), orchtrace.extract(headers):
        run = orchtrace.current_run()
        assert run is not None
        assert run.id == f"{'a' * 32}-{'c' * 16}"


@pytest.mark.parametrize("carrier", [{"traceparent": "nonsense"}, {}, {"traceparent": ""}])
def test_a_carrier_that_makes_no_sense_is_as_good_as_none(carrier: dict[str, str]) -> None:
    """The agents inside get a run of their own."""
    with recording() as captured, orchtrace.extract(carrier):
        orchtrace.agent("alone")(lambda: None)()
    assert len(captured.traces) == 1


HEADERS = {
    "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    "tracestate": f"orchtrace={'c' * 16}",
}


@pytest.mark.parametrize(
    "spell",
    [
        lambda headers: list(headers.items()),
        lambda headers: [(name.encode(), value.encode()) for name, value in headers.items()],
        lambda headers: {name.encode(): value.encode() for name, value in headers.items()},
        lambda headers: {f"HTTP_{name.upper()}": value for name, value in headers.items()},
        lambda headers: {name: [value] for name, value in headers.items()},
    ],
    ids=["pairs", "ASGI", "bytes", "WSGI", "several values"],
)
def test_headers_are_taken_as_servers_hand_them_on(spell: Any) -> None:
    """Pairs, bytes, and the names of WSGI's environment, with whatever else is among them."""
    with recording(), orchtrace.extract(spell(HEADERS)):
        run = orchtrace.current_run()
        assert run is not None
        assert run.id == f"{'a' * 32}-{'c' * 16}"


NO_HEADERS = {
    "nothing": None,
    "number": 5,
    "text": "text",
    "numbers": [1],
    "triples": [("a", "b", "c")],
    "nothings": [None],
    "object": object(),
}


@pytest.mark.parametrize("carrier", NO_HEADERS.values(), ids=NO_HEADERS)
def test_what_are_no_headers_breaks_no_host(
    carrier: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server answers its request all the same; what came is logged, once."""
    monkeypatch.setattr(_guard, "_told", set())
    before = otel_context.get_current()
    with recording() as captured:
        for _ in range(2):
            with orchtrace.extract(carrier):
                orchtrace.agent("alone")(lambda: None)()
    assert otel_context.get_current() is before
    assert len(captured.traces) == 2
    kind = type(carrier).__name__
    assert caplog.messages == [f"extract() needs headers, got a {kind}; no run is taken up"]


@pytest.mark.parametrize("carrier", [5, "text", [], ()], ids=lambda one: type(one).__name__)
def test_what_cannot_be_written_to_breaks_no_host(
    carrier: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request goes out without the run."""
    monkeypatch.setattr(_guard, "_told", set())
    with recording():
        assert orchtrace.team("client")(orchtrace.inject)(carrier) is carrier
    kind = type(carrier).__name__
    must = "inject() needs headers that can be written to"
    assert caplog.messages == [f"{must}, got a {kind}; the run is not sent along"]


def test_headers_that_are_no_mapping_of_pythons_are_written_to() -> None:
    """Those of some servers and clients have items and nothing else."""

    class Headers:
        def __init__(self) -> None:
            self.kept: list[tuple[str, str]] = []

        def __setitem__(self, name: str, value: str) -> None:
            self.kept.append((name, value))

        def items(self) -> list[tuple[str, str]]:
            return self.kept

    headers: Any = Headers()
    with recording() as captured:
        orchtrace.team("client")(orchtrace.inject)(headers)
        with orchtrace.extract(headers):
            run = orchtrace.current_run()
    assert run is not None
    assert run.id == captured.trace.trace_id


@pytest.mark.parametrize("sampled", ["00", "01"])
def test_what_the_caller_did_not_sample_is_not_recorded_as_a_run_of_its_own(sampled: str) -> None:
    """The callee follows the caller's decision, and the agents run all the same."""
    headers = {
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-{sampled}",
        "tracestate": f"orchtrace={'c' * 16}",
    }

    with recording() as captured, orchtrace.extract(headers):
        assert orchtrace.agent("remote")(lambda: 3)() == 3
    assert captured.traces == []
    assert [span.name for span in captured.spans] == (
        ["invoke_agent remote"] if sampled == "01" else []
    )


def test_in_a_remote_run_verbs_and_rewards_work() -> None:
    """A message, a decision and an aggregate are recorded; a reward goes to the run by its id."""
    headers = {
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "tracestate": f"orchtrace={'c' * 16}",
    }

    @orchtrace.agent
    def remote() -> None:
        orchtrace.decide("route", chosen="x")
        orchtrace.record_reward("ok", 1.0)

    with recording() as captured, orchtrace.extract(headers):
        remote()
        with orchtrace.aggregate():
            pass
    assert [span.name for span in captured.spans][:2] == ["decide remote", "invoke_agent remote"]
    assert [run for run, _ in captured.rewards] == [f"{'a' * 32}-{'c' * 16}"]


def test_what_a_callee_does_outside_of_agents_is_its_callers() -> None:
    """The process that was called does not know who its caller is; the trace does."""
    headers: list[Any] = []

    @orchtrace.agent
    def caller() -> None:
        headers.append(orchtrace.inject())

    @orchtrace.team
    def team() -> None:
        caller()

    @orchtrace.tool
    def look_up() -> None: ...

    with recording(deterministic=False) as captured:
        team()
        with orchtrace.extract(headers[0]):
            look_up()
            orchtrace.decide("route", chosen="x")
            orchtrace.message("caller")
    whole = build(captured.trace.trace_id, [of_span(span) for span in captured.spans])
    said = [(event.verb, event.agent, event.get("from")) for event in whole.events[3:-1]]
    assert said == [
        ("tool_call", "caller", None),
        ("tool_result", "caller", None),
        ("decide", "caller", None),
        ("message", "caller", "caller"),
    ]


def test_a_remote_caller_is_freed_when_the_block_is_left() -> None:
    """Nothing of a request stays current or counted as open after it."""
    headers = {
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "tracestate": f"orchtrace={'c' * 16}",
    }
    with recording() as captured:
        for _ in range(3):
            with orchtrace.extract(headers):
                orchtrace.agent("remote")(lambda: None)()
        assert spans.current() is None
    instances = {(span.attributes or {})[a.INSTANCE] for span in captured.spans}
    assert len(instances) == 3


class B3(TextMapPropagator):
    """Writes and reads a span by its ids alone."""

    fields = frozenset({"b3"})

    def inject(self, carrier: Any, context: Any = None, setter: Any = default_setter) -> None:
        own = trace.get_current_span(context).get_span_context()
        setter.set(carrier, "b3", f"{own.trace_id:032x}-{own.span_id:016x}")

    def extract(self, carrier: Any, context: Any = None, getter: Any = default_getter) -> Any:
        ids = [int(one, 16) for one in getter.get(carrier, "b3")[0].split("-")]
        span = trace.SpanContext(*ids, is_remote=True, trace_flags=trace.TraceFlags(1))
        return trace.set_span_in_context(trace.NonRecordingSpan(span), context)


@pytest.mark.parametrize("order", [(TraceContextTextMapPropagator, B3), (B3,)])
def test_a_run_is_taken_up_beside_b3_and_told_of_where_there_is_nothing_else(
    order: tuple[type[TextMapPropagator], ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B3 has no tracestate, in which the run travels, and hides that of W3C when it comes last."""
    monkeypatch.setattr(_guard, "_told", set())
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(CompositePropagator([one() for one in order]))
    try:
        with recording() as captured:
            headers = orchtrace.team(orchtrace.inject, name="client")()
            with orchtrace.extract(headers):
                orchtrace.agent(lambda: None, name="callee")()
    finally:
        propagate.set_global_textmap(before)
    is_alone = len(order) == 1
    assert len(captured.traces) == 1 + is_alone
    assert [one.getMessage()[:28] for one in caplog.records] == [
        "inject() needs a propagator "
    ] * is_alone
