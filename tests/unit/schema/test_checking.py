"""Checking tells all that is wrong with a document, whatever it is and whoever checks."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from orchtrace_otel import model, schema
from tests.unit.schema.documents import document, event, found


@pytest.mark.usefixtures("validator")
def test_a_sound_document_has_no_fault() -> None:
    """Edges lead forward in time, equal times included, and the stop is the last event."""
    stop = event("c", 1, verb="stop")
    sound = document(event("a"), event("b"), stop, edges=("a>b", "a>c", "b>c:aggregate"))
    assert found(sound) == []
    assert schema.is_valid(sound)


@pytest.mark.usefixtures("validator")
def test_every_fault_is_reported_at_once() -> None:
    """One check names all that is wrong, with place, what must hold and what came."""
    wrong = document(
        event("a", -1, type="stop", role=3),
        {"id": "", "t": True, "agent": "x"},
        "no event",
        event("a", 1, verb="stop"),
        event("d", 2),
        edges=("d>a", "d>nowhere"),
        topology="ring",
        costs={"tokens": "3", "dollars": -1},
        rewards={"two words": None},
        extra=1,
    )
    wrong["edges"][0]["weight"] = 2
    del wrong["task_id"]
    assert found(wrong) == [
        "$.task_id must be a string of at least 1 character, came nothing",
        "$.events[0].t must be a number, at least 0, came -1",
        f"$.events[0].type must be a string, one of: {', '.join(model.EVENT_TYPES)}, came 'stop'",
        "$.events[0].role must be a string, came 3",
        f"$.events[1].type must be a string, one of: {', '.join(model.EVENT_TYPES)}, came nothing",
        "$.events[1].id must be a string of at least 1 character, came ''",
        "$.events[1].t must be a number, at least 0, came True",
        "$.events[2] must be an object, came 'no event'",
        "$.edges[0].weight must not be there; the keys here are src, dst, type, came 2",
        '$.rewards["two words"] must be a number, came None',
        "$.costs.wall_clock_s must be a number, at least 0, came nothing",
        "$.costs.tokens must be a number, at least 0, came '3'",
        "$.topology must be a string, one of: centralized, planner_executor_critic, debate, swarm, "
        "hierarchical, harness, mixed, unknown, came 'ring'",
        "$.extra must not be there; the keys here are trace_id, task_id, system, topology, events, "
        "edges, rewards, costs, metrics, came 1",
        "$.events[3].id must be unique; $.events[0] has the same, came 'a'",
        "$.costs.dollars must be a number, at least 0, came -1",
        "$.edges[1].dst must be the id of an event, came 'nowhere'",
        "$.edges[0] must not have its cause after its effect, came $.events[4].t = 2 and "
        "$.events[0].t = -1",
        "$.events[3].verb must be the last event where it is a stop, came 1 more after it",
    ]
    assert not schema.is_valid(wrong)


@pytest.mark.parametrize(
    ("wrong", "faults"),
    [
        pytest.param(
            document(event("a"), event("a")),
            [("$.events[1].id", "artifact")],
            id="two events of one id",
        ),
        pytest.param(
            document(edges=("x>e", "e>y:temporal")),
            [("$.edges[0].src", "artifact"), ("$.edges[1].dst", "artifact")],
            id="edges from and to nowhere",
        ),
        pytest.param(
            document(costs={"tokens": 0, "wall_clock_s": 0, "dollars": -0.1}),
            [("$.costs.dollars", "artifact")],
            id="a negative cost that the schema does not name",
        ),
        pytest.param(
            document(costs={"tokens": -1, "wall_clock_s": 0}),
            [("$.costs.tokens", "schema")],
            id="a negative cost that the schema names is one fault",
        ),
        pytest.param(
            document(edges=("e>e",)),
            [("$.edges[0]", "orchtrace")],
            id="an event that causes itself",
        ),
        pytest.param(
            document(event("a"), event("b"), event("c"), edges=("a>b", "b>c", "c>a", "c>b")),
            [("$.edges[2]", "orchtrace"), ("$.edges[3]", "orchtrace")],
            id="two cycles through one edge",
        ),
        pytest.param(
            document(event("a"), event("b"), edges=("a>b", "b>a:temporal")),
            [],
            id="temporal edges close no cycle",
        ),
        pytest.param(
            document(event("b"), event("a"), event("c"), edges=("a>b", "b>c")),
            [],
            id="edges that lead back in the order of events without a cycle",
        ),
        pytest.param(
            document(event("b", 1), event("a", 2), edges=("a>b", "a>b:temporal")),
            [("$.edges[0]", "orchtrace")],
            id="a cause after its effect",
        ),
        pytest.param(
            document(event("a", 2), event("b", 1), edges=("a>b",)),
            [("$.edges[0]", "orchtrace")],
            id="the same where the events are in the order of the edge",
        ),
        pytest.param(
            document(event("a", 0, duration_s=9), event("b", 1), edges=("a>b",)),
            [],
            id="a point event that took longer than until its effect",
        ),
        pytest.param(
            document(event("b", 10**400), event("a", 10**400 + 1), edges=("a>b",)),
            [("$.edges[0]", "orchtrace")],
            id="times beyond any float",
        ),
        pytest.param(
            document(event("a", verb="stop"), event("b", verb="stop"), event("c")),
            [("$.events[1].verb", "orchtrace"), ("$.events[1].verb", "orchtrace")],
            id="two stops, none of them last",
        ),
        pytest.param(
            document(event("a", verb="stop"), event("b")),
            [("$.events[0].verb", "orchtrace")],
            id="an event after the stop",
        ),
    ],
)
@pytest.mark.usefixtures("validator")
def test_what_a_schema_cannot_say_is_checked(
    wrong: dict[str, Any], faults: list[tuple[str, str]]
) -> None:
    """Each rule beyond the schema's is reported at its place, with who asks for it."""
    assert [(fault.path, fault.rule) for fault in schema.check(wrong)] == faults
    assert schema.is_valid(wrong) == (not faults)


@pytest.mark.parametrize(
    "other", [None, 3, "text", [], [document()], True, math.nan, {1: 2}, object()]
)
@pytest.mark.usefixtures("validator")
def test_anything_can_be_checked(other: object) -> None:
    """What is no document at all is a fault, never an exception."""
    assert schema.check(other)[0].path.startswith("$")
    assert not schema.is_valid(other)


@pytest.mark.parametrize("number", [True, False, math.nan, math.inf, "1", None, [1]])
@pytest.mark.usefixtures("validator")
def test_what_is_no_number_is_refused(number: object) -> None:
    """A bool is no number in JSON, and NaN and Infinity are not JSON."""
    [fault] = schema.check(document(event(t=number)))
    assert (fault.path, fault.must) == ("$.events[0].t", "must be a number, at least 0")


@pytest.mark.parametrize("number", [0, 0.0, -0.0, 5e-324, 1.0, 2**64, 10**400, 1e308])
@pytest.mark.usefixtures("validator")
def test_every_number_of_json_is_a_time(number: float) -> None:
    """Whole or not, however large, and 0 with either sign."""
    assert found(document(event(t=number))) == []


@pytest.mark.usefixtures("validator")
def test_half_surrogate_pairs_are_accepted_anywhere() -> None:
    """JSON can say them, so a document that holds them is judged by the rest."""
    odd = {"\ud800": ["\udc00"], "role": "\ud800"}
    assert found(document(event(**odd))) == []
    assert found(document(rewards={"\ud800": 1})) == []
    assert found(document(rewards={"\ud800": "x"})) == [
        "$.rewards[\"\\ud800\"] must be a number, came 'x'"
    ]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 10**6, id="text"),
        pytest.param(10**5000, id="integer that Python does not print"),
        pytest.param([[[[-(10**5000)]]]], id="such an integer inside"),
        pytest.param(list(range(10**5)), id="array"),
        pytest.param({str(n): {"b": {}} for n in range(100)}, id="object"),
    ],
)
def test_what_came_is_said_shortly(value: object) -> None:
    """A fault is one line, whatever came."""
    [fault] = schema.check(document(rewards={"x": [value]}))
    assert len(str(fault)) < 200
    assert "\n" not in str(fault)


def test_checking_takes_no_recursion() -> None:
    """A causal chain of any length is followed, also backwards."""
    size = 20_000
    chain = [event(str(n)) for n in range(size)]
    edges = tuple(f"{n + 1}>{n}" for n in range(size - 1))
    assert found(document(*chain, edges=edges)) == []
    ring = schema.check(document(*chain, edges=(*edges, f"0>{size - 1}")))
    assert len(ring) == size - 1  # all but the one that leads forward


def test_checking_leaves_the_document_alone() -> None:
    """A check only reads."""
    source = document(event("a"), event("a"), edges=("a>x",))
    before = copy.deepcopy(source)
    schema.check(source)
    assert source == before


@pytest.mark.usefixtures("validator")
def test_jsonschema_rs_is_used_where_it_is_sound(request: pytest.FixtureRequest) -> None:
    """It is the fast way where installed; releases that crash on some documents are left alone."""
    used = schema._compiled() is not None
    assert used == (request.node.callspec.params["validator"] == "jsonschema-rs")
