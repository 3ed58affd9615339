"""What each span becomes in a trace, and what the builder makes of spans that lack or lie."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import schema, spans
from orchtrace_otel.builder import SpanRecord, build, distinct
from orchtrace_otel.model import Edge, Json, Reward, Trace, Turn
from orchtrace_otel.rewards import score
from orchtrace_otel.testing import Captured
from tests.given import given_rewards

TRACE = "0" * 31 + "1"
SECOND = 1_000_000_000


def span_id(number: int) -> str:
    """A span id that is a number."""
    return f"{number:016x}"


RUN = f"{TRACE}-{span_id(1)}"


def span(
    number: int, parent: int | None, start: int, end: int, found: Mapping[str, Any], **facts: Any
) -> SpanRecord:
    """A span with small numbers: ids, and seconds since the epoch."""
    return SpanRecord(
        span_id(number),
        None if parent is None else span_id(parent),
        start * SECOND,
        end * SECOND,
        found,
        **facts,
    )


def root(
    number: int = 1, *, parent: int | None = None, start: int = 10, end: int = 20, **more: Any
) -> SpanRecord:
    """The root of a run by a lead."""
    found = {
        a.OPERATION: a.INVOKE_WORKFLOW,
        a.RUN_ID: RUN,
        a.OPENS: "begin",
        a.AGENT_NAME: "lead",
        a.INSTANCE: "lead#1",
    }
    return span(number, parent, start, end, found | more)


def activation(
    number: int,
    parent: int | None = 1,
    start: int = 11,
    end: int = 15,
    opens: str = "spawn",
    **more: Any,
) -> SpanRecord:
    """A stretch of work by a critic."""
    found = {
        a.OPERATION: a.INVOKE_AGENT,
        a.OPENS: opens,
        a.AGENT_NAME: "critic",
        a.INSTANCE: "critic#1",
    }
    return span(number, parent, start, end, found | more)


def point(number: int, verb: str, parent: int | None = 1, at: int = 12, **more: Any) -> SpanRecord:
    """An instant of a lead."""
    return span(number, parent, at, at, {a.VERB: verb, a.AGENT_NAME: "lead"} | more)


def stop(number: int = 99, at: int = 20, **more: Any) -> SpanRecord:
    """The stop of the run."""
    return point(number, "stop", at=at, **{a.STOP_REASON: "information_complete", **more})


def chat(number: int, parent: int | None = 1, start: int = 12, **more: Any) -> SpanRecord:
    """A call of a model that another instrumentation recorded."""
    return span(number, parent, start, start + 1, {a.OPERATION: "chat", **more})


def usage(read: Any, written: Any) -> dict[str, Any]:
    """What a call of a model used."""
    return {a.INPUT_TOKENS: read, a.OUTPUT_TOKENS: written}


def built(*records: SpanRecord) -> Trace:
    """Build the run, in two orders of arrival, and check that the schema accepts it."""
    one = score(build(RUN, records))
    assert score(build(RUN, reversed(records))).to_json() == one.to_json()
    faults = [fault for fault in schema.check(one.to_dict()) if fault.rule != "orchtrace"]
    assert faults == []
    return one


def sound(*records: SpanRecord) -> Trace:
    """Build the run and check that nothing is wrong with the trace."""
    one = built(*records)
    assert list(schema.check(one.to_dict())) == []
    return one


def keys(one: Trace, event_id: str) -> Json:
    """An event of a trace by its id, with all its keys, those of scoring aside."""
    found = next(event.to_dict() for event in one.events if event.id == event_id)
    return {key: value for key, value in found.items() if key not in {"rewards", "credit"}}


# --- what each span becomes ---------------------------------------------------------------


def test_a_root_begins_from_the_user_and_ends_with_the_stop() -> None:
    """A root is one opening; its end is the stop, the last event, and no closing."""
    records = (root(**{a.SYSTEM: "python", a.TASK_ID: "q"}), stop())
    assert sound(*records).flags == ()
    one = build(RUN, records)
    assert one.to_dict() == {
        "trace_id": RUN,
        "task_id": "q",
        "system": "python",
        "events": [
            {
                "id": span_id(1) + ".open",
                "t": 0.0,
                "type": "message",
                "agent": "user",
                "verb": "begin",
                "start_unix_nano": 10 * SECOND,
                "from": "user",
                "to": "lead",
                "activation": span_id(1),
                "instance": "lead#1",
                "status": "ok",
            },
            {
                "id": span_id(99),
                "t": 10.0,
                "type": "orchestrator_decision",
                "agent": "lead",
                "verb": "stop",
                "activation": span_id(1),
                "instance": "lead#1",
                "status": "ok",
                "stop_reason": "information_complete",
                "decision": "O5",
                "revision": 0,
                "flags": list(one.flags),
            },
        ],
        "edges": [],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 10.0, "tool_calls": 0, "messages": 0},
        "metrics": dict(one.metrics or {}),
    }
    assert one.flags == ()


@pytest.mark.parametrize(
    ("opens", "type_", "decision"),
    [
        ("spawn", "spawn", "O1"),
        ("delegate", "orchestrator_decision", "O2"),
        ("begin", "message", None),
    ],
)
def test_an_activation_is_an_opening_by_who_caused_it_and_a_return(
    opens: str, type_: str, decision: str | None
) -> None:
    """The opening is the caller's, to the agent; the closing is the agent's return."""
    one = sound(root(), activation(2, opens=opens, **{a.ROLE: "judge"}), stop())
    opening, closing = keys(one, span_id(2) + ".open"), keys(one, span_id(2) + ".close")
    assert opening == {
        "id": span_id(2) + ".open",
        "t": 1.0,
        "type": type_,
        "agent": "lead",
        "verb": opens,
        "parent": span_id(1),
        **({"from": "lead"} if opens == "begin" else {}),
        "to": "critic",
        "role": "judge",
        "activation": span_id(2),
        "instance": "critic#1",
        "status": "ok",
        **({} if decision is None else {"decision": decision}),
    }
    assert closing == {
        "id": span_id(2) + ".close",
        "t": 5.0,
        "type": "return",
        "agent": "critic",
        "verb": "return",
        "from": "critic",
        "to": "lead",
        "role": "judge",
        "activation": span_id(2),
        "instance": "critic#1",
        "status": "ok",
    }
    assert one.edges == (Edge(span_id(2) + ".open", span_id(2) + ".close", "causal"),)


def test_who_caused_an_opening_is_said_by_the_span_where_it_was_not_the_parent() -> None:
    """A hand-off is the doing of the agent that handed over."""
    one = sound(root(), activation(2, **{a.BY: "planner"}), stop())
    assert keys(one, span_id(2) + ".open")["agent"] == "planner"
    assert keys(one, span_id(2) + ".close")["to"] == "planner"


def test_a_tool_is_a_call_and_a_result() -> None:
    """Both name the tool, the activation and the instance; the result has how it went."""
    found = {
        a.VERB: a.TOOL_CALL,
        a.OPERATION: a.EXECUTE_TOOL,
        a.TOOL_NAME: "search",
        a.AGENT_NAME: "critic",
        a.TOOL_CALL_ID: "c1",
        a.ERROR_TYPE: "ValueError",
        a.TRUSTED: False,
    }
    one = sound(root(), activation(2), span(3, 2, 12, 14, found, is_error=True), stop())
    shared = {
        "agent": "critic",
        "tool": "search",
        "activation": span_id(2),
        "instance": "critic#1",
        "tool_call_id": "c1",
    }
    assert keys(one, span_id(3) + ".open") == {
        "id": span_id(3) + ".open",
        "t": 2.0,
        "type": "tool_call",
        "verb": "tool_call",
        "status": "ok",
        **shared,
    }
    assert keys(one, span_id(3) + ".close") == {
        "id": span_id(3) + ".close",
        "t": 4.0,
        "type": "tool_result",
        "verb": "tool_result",
        "status": "error",
        "error_type": "ValueError",
        "trusted": False,
        **shared,
    }
    assert one.costs["tool_calls"] == 1


@pytest.mark.parametrize(
    ("verb", "type_", "decision"),
    [
        ("decide", "orchestrator_decision", None),
        ("spawn", "spawn", "O1"),
        ("delegate", "orchestrator_decision", "O2"),
        ("message", "message", "O3"),
        ("aggregate", "aggregate", "O4"),
        ("despawn", "despawn", "O1"),
        ("human_intervention", "human_intervention", None),
        ("safety_event", "safety_event", None),
    ],
)
def test_an_instant_is_one_event(verb: str, type_: str, decision: str | None) -> None:
    """Its keys are what the span says; a message says who it is from."""
    one = sound(root(), point(2, verb, **{a.TO: "critic", a.CAUSALITY: "inferred"}), stop())
    assert keys(one, span_id(2)) == {
        "id": span_id(2),
        "t": 2.0,
        "type": type_,
        "agent": "lead",
        "verb": verb,
        **({"from": "lead"} if verb == "message" else {}),
        "activation": span_id(1),
        "instance": "lead#1",
        "status": "ok",
        "causality": "inferred",
        "to": "critic",
        **({} if decision is None else {"decision": decision}),
    }


def test_an_event_that_takes_time_says_how_long() -> None:
    """An interval that is one event has its duration, exact to the nanosecond."""
    lasting = span(2, 1, 12, 12, {a.VERB: "aggregate", a.AGENT_NAME: "lead"})
    lasting.end += 1
    assert keys(sound(root(), lasting, stop()), span_id(2))["duration_s"] == 1e-9


def test_a_decision_keeps_what_was_chosen_and_among_what() -> None:
    """Name, choice and candidates come as the span has them."""
    facts = {a.DECISION_NAME: "route", a.CHOSEN: ("a",), a.CANDIDATES: ("a", "b")}
    event = keys(sound(root(), point(2, "decide", **facts), stop()), span_id(2))
    assert (event["name"], event["chosen"], event["candidates"]) == ("route", ["a"], ["a", "b"])


def test_no_sender_decides_the_order_of_keys() -> None:
    """Attributes in another order, as a collector may send them, give the same text."""
    facts = {a.TO: "x", a.CHANNEL: "c", a.ATTEMPT: 2, a.CAUSALITY: "exact", a.ROLE: "r"}
    backwards = dict(reversed(facts.items()))
    one = sound(root(), point(2, "message", **facts), stop())
    other = sound(root(), point(2, "message", **backwards), stop())
    assert one.to_json() == other.to_json()


def test_causes_in_other_runs_are_links_and_no_edges() -> None:
    """A resumed run says of which run and event it is the continuation."""
    resumed = root(**{a.RUN_LINKS: ("ab-cd:ef.close",)})
    one = sound(resumed, stop())
    assert one.events[0]["links"] == [{"run": "ab-cd", "event": "ef.close"}]
    assert one.edges == ()


def test_edges_enter_openings_instants_and_closings() -> None:
    """Both arrays become edges of the type they name, each once."""
    edges = {a.EDGES: (f"spawn:{span_id(1)}.open",) * 2, a.EDGES_CLOSE: (f"causal:{span_id(3)}",)}
    one = sound(root(), activation(2, **edges), point(3, "message", 2, 13), stop())
    assert set(one.edges) == {
        Edge(span_id(2) + ".open", span_id(2) + ".close", "causal"),
        Edge(span_id(1) + ".open", span_id(2) + ".open", "spawn"),
        Edge(span_id(3), span_id(2) + ".close", "causal"),
    }
    assert len(one.edges) == 3
    assert one.flags == ()


def test_a_cause_that_is_a_span_of_a_caller_means_the_work_it_is_part_of() -> None:
    """Another process knows the calling span only; the edge starts at the activation's opening."""
    client = span(3, 2, 12, 14, {})
    remote = activation(4, 3, 12, 13, **{a.EDGES: (f"spawn:{span_id(3)}",)})
    one = sound(root(), activation(2), client, remote, stop())
    assert Edge(span_id(2) + ".open", span_id(4) + ".open", "spawn") in one.edges
    assert one.flags == ()


# --- whose it is --------------------------------------------------------------------------


def test_events_belong_to_the_nearest_activation_through_spans_of_the_host() -> None:
    """A user's spans in between are looked through."""
    one = sound(
        root(),
        activation(2),
        span(3, 2, 12, 14, {}),
        span(4, 3, 12, 14, {}),
        point(5, "decide", 4),
        stop(),
    )
    assert keys(one, span_id(5))["activation"] == span_id(2)
    assert one.flags == ()


def test_a_span_may_name_its_activation_where_its_parent_never_came() -> None:
    """What a span says of its activation goes before its parents."""
    one = sound(root(), activation(2), point(5, "decide", 77, **{a.ACTIVATION: span_id(2)}), stop())
    assert keys(one, span_id(5))["activation"] == span_id(2)
    assert one.flags == ()


def test_an_orphan_belongs_to_the_root_and_is_flagged() -> None:
    """A parent that never came is told, and nothing is left out."""
    one = sound(root(), activation(2, 77), stop())
    assert keys(one, span_id(2) + ".open")["parent"] == span_id(1)
    assert one.flags == ("orphans",)


def test_a_cause_that_never_came_is_flagged() -> None:
    """An edge without its source is left out and told."""
    one = sound(root(), activation(2, **{a.EDGES: (f"causal:{span_id(77)}.close",)}), stop())
    assert len(one.edges) == 1
    assert one.flags == ("missing_causes",)


def test_a_run_without_its_root_is_built_and_flagged() -> None:
    """Times count from the first span there is, which says when that was."""
    one = sound(activation(2), stop())
    assert one.events[0].t == 0
    assert one.events[0]["start_unix_nano"] == 11 * SECOND
    assert "no_root" in one.flags


def test_a_run_without_a_stop_gets_one_of_reason_unknown() -> None:
    """Where the stop never came the trace says so in the place where it says all else."""
    one = sound(root(), activation(2), stop())
    lacking = sound(root(), activation(2))
    assert lacking.stop is not None
    assert lacking.stop["stop_reason"] == "unknown"
    assert lacking.flags == ("no_stop",)
    assert lacking.events[:-1] == one.events[:-1]


def test_a_second_stop_is_flagged_and_left_out() -> None:
    """The last one in order of time is the stop; there is never more than one."""
    one = sound(root(), stop(98, 19, **{a.STOP_REASON: "error"}), stop())
    assert one.stop is not None
    assert one.stop.id == span_id(99)
    assert one.flags == ("several_stops",)


def test_nothing_at_all_is_a_stop_of_reason_unknown() -> None:
    """A run of which no span came is a trace that says so."""
    one = sound()
    assert [event.verb for event in one.events] == ["stop"]
    assert one.flags == ("no_root",)


# --- time ---------------------------------------------------------------------------------


def test_what_began_before_its_run_is_clamped_and_flagged() -> None:
    """Another process's clock is behind: no time is negative, and the begin stays first."""
    early = activation(2, start=3, end=12)
    one = built(root(), early, stop())
    assert [event.t for event in one.events] == [0.0, 0.0, 2.0, 10.0]
    assert one.events[0]["verb"] == "begin"
    assert "skewed" in one.flags


def test_a_span_that_ends_before_it_begins_took_no_time() -> None:
    """An end that cannot be is the start, and flagged."""
    one = sound(root(), activation(2, start=15, end=0), stop())
    assert keys(one, span_id(2) + ".close")["t"] == 5.0
    assert "skewed" in one.flags


def test_what_ended_after_its_run_is_late() -> None:
    """Only a collector sees it; the event says so, and so does the run."""
    one = sound(root(), activation(2, end=25), stop())
    assert keys(one, span_id(2) + ".close")["late"] is True
    assert "late" not in keys(one, span_id(2) + ".open")
    assert one.flags == ("late_spans",)
    assert one.events[-1]["verb"] == "stop"


def test_a_model_that_answered_after_the_run_is_late() -> None:
    """Its tokens count, and the run says that they came late."""
    one = sound(root(), chat(2, start=20, **usage(1, 2)), stop())
    assert one.costs["tokens"] == 3
    assert one.flags == ("late_spans",)


# --- turns --------------------------------------------------------------------------------


def test_a_turns_tokens_are_on_the_event_that_claims_it_first() -> None:
    """Two tool calls of one turn: the first has the tokens, and the trace has them once."""
    claim = {a.TURNS: (span_id(3),)}
    one = sound(
        root(),
        activation(2),
        chat(3, 2, **usage(5, 7)),
        point(4, "delegate", 2, 13, **claim),
        point(5, "delegate", 2, 14, **claim),
        stop(),
    )
    assert keys(one, span_id(4))["tokens"] == 12
    assert keys(one, span_id(4))["turns"] == [span_id(3)]
    assert "tokens" not in keys(one, span_id(5))
    assert "tokens" not in keys(one, span_id(2) + ".close")
    assert one.costs["tokens"] == 12


def test_a_turn_that_nothing_claims_is_on_the_close_of_its_activation() -> None:
    """And on the stop where that activation is the root; each is written down once."""
    one = sound(
        root(),
        activation(2),
        chat(3, 2, **usage(5, 7), **{a.REQUEST_MODEL: "m", a.FINISH_REASONS: ("stop",)}),
        chat(4, 1, start=16, **usage(1, 1)),
        stop(),
    )
    assert keys(one, span_id(2) + ".close")["tokens"] == 12
    assert keys(one, span_id(99))["tokens"] == 2
    assert [turn.to_dict() for turn in one.turns] == [
        {
            "id": span_id(3),
            "activation": span_id(2),
            "agent": "critic",
            "instance": "critic#1",
            "t": 2.0,
            "duration_s": 1.0,
            "model": "m",
            "input_tokens": 5,
            "output_tokens": 7,
            "finish_reason": "stop",
            "status": "ok",
            "event": span_id(2) + ".close",
        },
        {
            "id": span_id(4),
            "activation": span_id(1),
            "agent": "lead",
            "instance": "lead#1",
            "t": 6.0,
            "duration_s": 1.0,
            "input_tokens": 1,
            "output_tokens": 1,
            "status": "ok",
            "event": span_id(99),
        },
    ]


@pytest.mark.parametrize(
    ("found", "tokens"),
    [({}, None), ({a.INPUT_TOKENS: 5}, 5), (usage(-1, 2**80), None), (usage("5", True), None)],
)
def test_usage_that_is_unknown_is_absent_and_counted(
    found: dict[str, Any], tokens: int | None
) -> None:
    """What the provider did not say is never 0; what it said counts."""
    one = sound(root(), activation(2), chat(3, 2, **found), stop())
    assert keys(one, span_id(2) + ".close").get("tokens") == tokens
    assert one.costs["tokens"] == (tokens or 0)
    assert one.metrics is not None
    assert one.metrics["turns_without_usage"] == 1


def test_whole_numbers_that_came_as_floats_are_counts() -> None:
    """Languages without integers send 5 as 5.0."""
    one = sound(root(), chat(3, **usage(5.0, 7.0)), stop())
    assert one.to_dict()["costs"]["tokens"] == 12
    assert isinstance(one.costs["tokens"], int)


def test_a_turn_that_is_claimed_and_never_came_is_flagged() -> None:
    """Its tokens are unknown, and nothing else would tell that there was a call."""
    one = sound(root(), point(4, "delegate", **{a.TURNS: (span_id(77),)}), stop())
    assert "turns" not in keys(one, span_id(4))
    assert one.flags == ("missing_turns",)


def test_two_instrumentations_of_one_call_are_one_turn() -> None:
    """The outer is the turn; the usage, and the claim, may be known of the inner alone."""
    one = sound(
        root(),
        activation(2),
        chat(3, 2),
        span(4, 3, 12, 13, {}),
        chat(5, 4, **usage(5, 7)),
        point(6, "delegate", 2, 14, **{a.TURNS: (span_id(5),)}),
        stop(),
    )
    assert [turn.id for turn in one.turns] == [span_id(3)]
    assert one.costs["tokens"] == 12
    assert keys(one, span_id(6))["tokens"] == 12


def test_a_turn_of_an_agent_inside_a_turn_is_its_own() -> None:
    """A model that calls an agent that calls a model made two calls."""
    one = sound(root(), chat(2, **usage(1, 1)), activation(3, 2), chat(4, 3, **usage(2, 2)), stop())
    assert [turn.id for turn in one.turns] == [span_id(2), span_id(4)]


def test_a_model_called_below_a_span_from_outside_is_not_of_the_run() -> None:
    """Inline the host's own request span may be above it; offline nothing leads to the run."""
    assert sound(root(), chat(3, 77, **usage(5, 7)), stop()).turns == ()


def test_a_turn_is_written_down_as_it_is_read() -> None:
    """Every field that its span tells, in the order of `Turn`; what it does not tell is absent."""
    told = {
        a.RESPONSE_MODEL: "large-1",
        a.PROVIDER: "openai",
        a.FINISH_REASONS: ("stop",),
        a.PROMPT_REF: "p",
        a.COMPLETION_REF: "c",
        a.CONTENT_REF: "t",
        a.CAUSALITY: "inferred",
        a.POLICY_VERSION: "7",
    }
    full = sound(root(), chat(3, **usage(5, 7), **told), stop())
    bare = sound(root(), chat(3), stop())
    for trace in (full, bare):
        assert trace.stop is not None
        assert [list(one.to_dict().items()) for one in trace.turns] == [
            list(record.items()) for record in trace.stop["turn_records"]
        ]
    assert None not in {getattr(full.turns[0], field.name) for field in fields(Turn)}
    assert bare.turns[0].prompt_ref is None


# --- what was sent twice ------------------------------------------------------------------


def test_a_span_that_is_sent_again_is_the_same_span() -> None:
    """Identical copies change nothing and are no loss."""
    whole = [root(), activation(2), chat(3, 2, **usage(1, 2)), point(4, "decide"), stop()]
    assert sound(*whole, *whole, *whole).to_json() == sound(*whole).to_json()


def test_versions_of_a_span_that_differ_are_flagged() -> None:
    """The one that says most is taken, whichever came first."""
    full = point(4, "decide", **{a.CHOSEN: "a"})
    for records in itertools.permutations([point(4, "decide"), full, full]):
        one = sound(root(), *records, stop())
        assert keys(one, span_id(4))["chosen"] == "a"
        assert one.flags == ("duplicate_spans",)


def test_distinct_is_the_same_for_any_order() -> None:
    """Whatever differs, one version wins in every order of arrival."""
    versions = [
        point(4, "decide"),
        point(4, "decide", 2),
        point(4, "decide", at=13),
        point(4, "message"),
        span(4, 1, 12, 12, point(4, "decide").attributes, is_error=True),
    ]
    winners = [repr(distinct(order)) for order in itertools.permutations(versions)]
    assert len(set(winners)) == 1


# --- what cannot be ------------------------------------------------------------------------


def test_activations_above_each_other_hang_below_the_root() -> None:
    """A cycle of parents is cut, and flagged, whichever comes first."""
    one = sound(root(), activation(2, 3), activation(3, 2), activation(4, 4), stop())
    parents = {keys(one, span_id(number) + ".open")["parent"] for number in (2, 3, 4)}
    assert span_id(1) in parents
    assert _leads_to_root(one)
    assert one.flags == ("cyclic_parents",)


def test_spans_above_each_other_are_flagged() -> None:
    """A cycle among spans that are no activations ends at the root."""
    one = sound(
        root(), span(2, 3, 11, 12, {}), span(3, 2, 11, 12, {}), point(4, "decide", 2), stop()
    )
    assert keys(one, span_id(4))["activation"] == span_id(1)
    assert one.flags == ("cyclic_parents",)


def _leads_to_root(one: Trace) -> bool:
    parents = {
        event["activation"]: event["parent"] for event in one.events if "parent" in event.keys
    }
    for at in list(parents):
        for _ in range(len(parents) + 1):
            at = parents.get(at, span_id(1))  # noqa: PLW2901 - walks up
        if at != span_id(1):
            return False
    return True


GARBAGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.sampled_from(
        ["causal:", f"causal:{span_id(1)}.open", '[{"id": 1}]', '[{"value": NaN}]', "[1]", "{}"]
    ),
    st.lists(
        st.one_of(st.none(), st.integers(), st.text(max_size=3), st.binary(max_size=3)), max_size=3
    ).map(tuple),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
OURS = st.sampled_from(
    sorted(value for name, value in vars(a).items() if name.isupper() and isinstance(value, str))
)


@given(
    st.lists(
        st.builds(
            span,
            st.integers(1, 6),
            st.one_of(st.none(), st.integers(1, 7)),
            st.integers(0, 30),
            st.integers(0, 30),
            st.dictionaries(OURS, GARBAGE, max_size=12),
        ),
        max_size=8,
    )
)
def test_nothing_that_others_send_makes_the_builder_raise(records: list[SpanRecord]) -> None:
    """Wrong types anywhere give a trace that the schema accepts, the same in any order."""
    built(*records)
    built(root(), *records, stop())


@pytest.mark.parametrize(
    "found",
    [
        {a.EDGES: "spawn:x"},
        {a.EDGES: (1, None)},
        {a.EDGES: (b"spawn:x",)},
        {a.EDGES: (f"friendship:{span_id(1)}.open",)},
        {a.EDGES_CLOSE: {"a": 1}},
        {a.OPENS: "explode"},
        {a.OPENS: 1},
        {a.ATTEMPT: "first"},
        {a.RUN_LINKS: "abc"},
    ],
)
def test_attributes_of_ours_that_hold_something_else_are_flagged(found: dict[str, Any]) -> None:
    """What cannot be read is left out and told."""
    one = sound(root(), activation(2, **found), stop())
    assert one.flags == ("garbled",)
    assert len(one.events) == 4


@pytest.mark.parametrize("text", ["[", "{}", "[1]", '[{"id": "a"}]', 7, '[{"value": 1}]'])
def test_rewards_that_cannot_be_read_are_flagged(text: Any) -> None:
    """A limit on the length of values may have cut them: no reward, and the trace says so."""
    one = sound(root(**{a.REWARD_RECORDS: text}), stop())
    assert given_rewards(one) == {}
    assert (one.flags == ("rewards_unreadable",)) == (text != "{}")


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        (None, ()),
        (f"{span_id(2)}.close", ()),
        ("critic", ()),
        ("critic#1", ()),
        ("nobody", ("reward_targets_unknown",)),
    ],
)
def test_a_reward_for_what_the_run_does_not_have_is_flagged(
    target: str | None, flags: tuple[str, ...]
) -> None:
    """A verdict that names no event, turn, agent or role of the run joins to nothing."""
    given = Reward(id="r", component="style", value=1.0, unit="agent", target=target)
    text = orjson.dumps([given.to_dict()]).decode()
    one = sound(root(**{a.REWARD_RECORDS: text}), activation(2), stop())
    assert one.flags == flags
    assert given in one.reward_records


# --- limits of the SDK ---------------------------------------------------------------------


def captured_under(limits: SpanLimits) -> Captured:
    """A place to record, whose provider has limits."""
    captured = Captured()
    captured.provider = TracerProvider(shutdown_on_exit=False, span_limits=limits)
    captured.provider.add_span_processor(captured)
    captured.provider.add_span_processor(captured.pipeline)
    captured.tracing = spans.Tracing(captured.provider.get_tracer(a.SCOPE), captured.pipeline)
    return captured


def run_under(limits: SpanLimits, host: Any) -> Trace:
    """Trace `host` under limits."""
    captured = captured_under(limits)
    before = spans.use(captured.tracing)
    try:
        host()
    finally:
        spans.use(before)
    offline = score(build(captured.trace.trace_id, map(_record, captured.spans)))
    assert offline.to_json() == captured.trace.to_json()
    assert list(schema.check(captured.trace.to_dict())) == []
    return captured.trace


def _record(one: ReadableSpan) -> SpanRecord:
    return SpanRecord(
        f"{one.context.span_id:016x}",
        None if one.parent is None else f"{one.parent.span_id:016x}",
        one.start_time or 0,
        one.end_time or 0,
        dict(one.attributes or {}),
        not one.status.is_ok,
        one.dropped_links,
        one.dropped_attributes,
    )


def fan_out(branches: int) -> Any:
    """A team that merges what many critics gave back."""

    @orchtrace.agent
    async def critic(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @orchtrace.team
    async def lead() -> None:
        answers = await asyncio.gather(*(critic(number) for number in range(branches)))
        with orchtrace.aggregate(answers):
            pass

    return lambda: asyncio.run(lead())


def _merged(one: Trace) -> int:
    return sum(edge.type == "aggregate" for edge in one.edges)


def test_a_fan_in_of_200_keeps_its_edges_though_links_are_cut() -> None:
    """OTel keeps 128 links of a span; the arrays have all 200 causes, and the run says so."""
    one = run_under(SpanLimits(), fan_out(200))
    assert _merged(one) == 200
    assert one.flags == ("links_cut",)


def test_two_links_a_span_are_enough_for_every_edge() -> None:
    """A small limit on links costs links, never edges."""
    one = run_under(SpanLimits(max_links=2), fan_out(5))
    whole = run_under(SpanLimits(), fan_out(5))
    assert len(one.edges) == len(whole.edges)
    assert _merged(one) == 5
    assert one.flags == ("links_cut",)


def test_a_host_that_fills_our_spans_up_does_not_push_ours_out() -> None:
    """The SDK evicts the oldest attributes, ours, which are set again before the end."""

    def fill() -> None:
        for number in range(200):
            otel.get_current_span().set_attribute(f"host.{number}", number)

    @orchtrace.tool
    def search() -> None:
        fill()

    @orchtrace.agent
    def critic() -> None:
        fill()
        search()
        orchtrace.record_reward("style", 1.0)

    @orchtrace.team(task_id="q")
    def lead() -> None:
        critic()
        fill()

    one = run_under(SpanLimits(), lead)
    verbs = [event.verb for event in one.events]
    assert verbs == ["begin", "spawn", "tool_call", "tool_result", "return", "stop"]
    assert (one.task_id, given_rewards(one)) == ("q", {"style": 1.0})
    assert one.flags == ("attributes_evicted",)


def test_results_that_do_not_fit_on_the_root_are_flagged_inline_too() -> None:
    """Tags of the host and our results together are too many: the root evicts, and says so."""
    tags = {f"tag{number}": "x" for number in range(115)}

    @orchtrace.team(tags=tags)
    def lead() -> None:
        orchtrace.record_reward("style", 1.0)

    one = run_under(SpanLimits(), lead)
    assert one.flags == ("attributes_evicted",)
    assert given_rewards(one) == {"style": 1.0}


def test_a_limit_on_the_length_of_values_is_flagged() -> None:
    """Edges that were cut short name nothing any more; the trace is sound and says so."""
    captured = captured_under(SpanLimits(max_attribute_length=20))
    before = spans.use(captured.tracing)
    try:
        fan_out(2)()
    finally:
        spans.use(before)
    assert list(schema.check(captured.trace.to_dict())) == []
    assert captured.trace.flags == ("missing_causes", "values_cut")


# --- a run that is long --------------------------------------------------------------------


def test_a_deep_chain_is_built_without_recursion() -> None:
    """Ten thousand agents inside each other are no more trouble than beside each other."""
    depth = 10_000
    chain = [activation(number, number - 1) for number in range(2, depth)]
    one = score(build(RUN, [root(), *chain, stop(depth)]))
    assert len(one.events) == 2 * depth - 2
    assert one.flags == ()
