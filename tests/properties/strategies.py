"""Documents and traces for property tests, to be used by any of them.

`json_values`: whatever JSON can say. `documents`: what the published schema accepts,
nothing more asked. `traces`: runs as we write them, with a causal graph, sound in every
rule. `near_documents`: documents with a few things changed at random, valid or not.
`broken_documents`: sound ones with one fault planted, and where it must be found.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from orchtrace_otel.model import (
    EDGE_TYPES,
    ESTIMATORS,
    EVENT_TYPES,
    FAMILIES,
    STATUSES,
    STOP_REASONS,
    TOPOLOGIES,
    UNITS,
    VERBS,
    Edge,
    Event,
    Reward,
    Trace,
    Turn,
)

Json = dict[str, Any]

# Half surrogate pairs too: JSON can escape what UTF-8 cannot hold. They stand alone, for
# two halves that meet are one character once they are read back.
_halves = st.characters(min_codepoint=0xDC00, max_codepoint=0xDFFF)
texts = st.text(max_size=12) | st.text(_halves, min_size=1, max_size=2)
names = st.text(min_size=1, max_size=8) | st.sampled_from(["user", "lead", "a.b", "é", "\u2028"])
finite = st.floats(allow_nan=False, allow_infinity=False)
huge = st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**40, -(10**40), 10**400])
numbers = st.integers() | finite | huge | st.sampled_from([0, -0.0, 1, 1.0, 5e-324])
amounts = numbers.filter(lambda number: number >= 0)


def json_values(max_leaves: int = 8) -> st.SearchStrategy[Any]:
    """Any value that JSON can say."""
    leaves = st.none() | st.booleans() | numbers | texts
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=max_leaves,
    )


def _record(
    must: dict[str, st.SearchStrategy[Any]], may: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(must, optional=may)


_EVENT_KEYS = {"id", "t", "type", "agent", "role", "from", "to", "tool", "content_ref", "trusted"}
_extras = st.dictionaries(
    texts.filter(lambda key: key not in _EVENT_KEYS), json_values(4), max_size=2
)


@st.composite
def foreign_events(draw: st.DrawFn) -> Json:
    """An event that the published schema accepts, with keys nobody knows."""
    known = draw(
        _record(
            {"id": names, "t": amounts, "type": st.sampled_from(EVENT_TYPES), "agent": names},
            {
                **dict.fromkeys(("role", "from", "to", "tool", "content_ref"), texts),
                "trusted": st.booleans(),
            },
        )
    )
    return {**draw(_extras), **known}


def documents() -> st.SearchStrategy[Json]:
    """What the published schema accepts: ids may repeat, edges may lead nowhere."""
    edge = st.fixed_dictionaries({"src": names, "dst": names, "type": st.sampled_from(EDGE_TYPES)})
    measures = st.dictionaries(texts, numbers, max_size=3)
    costs = st.builds(
        lambda others, ours: {**others, **ours},
        measures,
        _record(
            {"tokens": amounts, "wall_clock_s": amounts},
            {"tool_calls": amounts, "messages": amounts},
        ),
    ).map(
        lambda costs: {
            key: abs(cost) if key in {"tool_calls", "messages"} else cost
            for key, cost in costs.items()
        }
    )
    return _record(
        {
            "trace_id": names,
            "task_id": names,
            "events": st.lists(foreign_events(), min_size=1, max_size=4),
            "edges": st.lists(edge, max_size=4),
            "rewards": measures,
            "costs": costs,
        },
        {"system": texts, "topology": st.sampled_from(TOPOLOGIES), "metrics": measures},
    )


# --- sound traces ---------------------------------------------------------------------

_agents = st.sampled_from(["lead", "searcher", "critic", "writer"])
_span_ids = st.integers(1, 2**64 - 1).map("{:016x}".format)
_seconds = st.integers(0, 10**12).map(lambda nanoseconds: nanoseconds / 1e9)


@st.composite
def turns(draw: st.DrawFn, number: int) -> Turn:
    """An LLM call."""
    return Turn(
        id=f"{number:016x}",
        agent=draw(_agents),
        t=draw(_seconds),
        model=draw(st.none() | st.just("fake-1")),
        input_tokens=draw(st.none() | st.integers(0, 10_000)),
        output_tokens=draw(st.none() | st.integers(0, 10_000)),
        status=draw(st.sampled_from(STATUSES)),
    )


@st.composite
def rewards(draw: st.DrawFn, number: int) -> Reward:
    """A reward of any family."""
    return Reward(
        id=f"r{number}",
        component=draw(st.sampled_from(["correctness", "brevity"])),
        value=draw(finite),
        family=draw(st.sampled_from(FAMILIES)),
        unit=draw(st.sampled_from(UNITS)),
        estimator=draw(st.sampled_from(ESTIMATORS)),
        provisional=draw(st.booleans()),
        n=draw(st.none() | st.integers(1, 9)),
    )


@st.composite
def _event(draw: st.DrawFn, identity: str, t: float, verb: str) -> Event:
    kind, decision = VERBS[verb]
    agent = draw(_agents)
    keys: Json = {
        "verb": verb,
        "activation": draw(_span_ids),
        "instance": f"{agent}-1",
        "status": draw(st.sampled_from(STATUSES)),
    }
    if decision is not None:
        keys["decision"] = decision
    if draw(st.booleans()):
        keys["tokens"] = draw(st.integers(0, 10_000))
    return Event(identity, t, kind, agent, keys)


@st.composite
def traces(draw: st.DrawFn, min_events: int = 2, max_events: int = 8) -> Trace:
    """A run as we write it: a causal graph over events in order of time, a stop at the end."""
    ids = draw(st.lists(_span_ids, min_size=min_events, max_size=max_events, unique=True))
    times = sorted(draw(st.lists(_seconds, min_size=len(ids), max_size=len(ids))))
    verb = st.sampled_from([verb for verb in VERBS if verb not in {"begin", "stop"}])
    verbs = ["begin", *(draw(verb) for _ in ids[2:]), "stop"]
    events = [draw(_event(*of)) for of in zip(ids, times, verbs, strict=True)]
    stop = events[-1]
    events[-1] = Event(
        stop.id,
        stop.t,
        stop.type,
        stop.agent,
        {
            **stop.keys,
            "stop_reason": draw(st.sampled_from(STOP_REASONS)),
            "turn_records": [draw(turns(n)).to_dict() for n in range(draw(st.integers(0, 2)))],
            "reward_records": [draw(rewards(n)).to_dict() for n in range(draw(st.integers(0, 2)))],
            "revision": 0,
            "flags": draw(st.lists(st.sampled_from(["late", "partial"]), unique=True)),
        },
    )
    edges: list[Edge] = []
    for effect in range(1, len(ids)):
        causes = draw(st.lists(st.integers(0, effect - 1), max_size=2, unique=True))
        edges += [
            Edge(ids[cause], ids[effect], draw(st.sampled_from(EDGE_TYPES))) for cause in causes
        ]
    return Trace(
        trace_id="0" * 31 + "1-" + ids[0],
        task_id=draw(names),
        events=tuple(events),
        edges=tuple(edges),
        rewards=draw(st.dictionaries(names, finite, max_size=2)),
        costs={
            "tokens": sum(event.get("tokens", 0) for event in events),
            "wall_clock_s": times[-1],
            "messages": sum(event.verb == "message" for event in events),
        },
        system=draw(st.sampled_from(["langgraph", "autogen", "python"])),
        topology=draw(st.none() | st.sampled_from(TOPOLOGIES)),
        metrics=draw(st.none() | st.dictionaries(names, finite, max_size=2)),
    )


# --- changed at random ----------------------------------------------------------------

_odd = json_values(3) | st.sampled_from(
    [True, False, None, "", 0, -1, -0.0, -5e-324, -(10**40), [], {}, [[]], "spawn", "stop"]
)


def _places(value: Any, depth: int = 3) -> list[tuple[Any, Any]]:
    """Every container of a document, down to what the schema looks at, with each of its keys."""
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    else:
        return []
    inner = [place for key in keys for place in _places(value[key], depth - 1)] if depth else []
    return [(value, key) for key in keys] + inner


@st.composite
def near_documents(draw: st.DrawFn) -> Any:
    """A document with up to three changes: a value, a key too many, a key too few."""
    document = copy.deepcopy(draw(documents() | traces().map(Trace.to_dict)))
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(_places(document) or [({}, None)]))
        match draw(st.sampled_from(["change", "change", "add", "drop"])):
            case "change":
                container[key] = draw(_odd)
            case "add" if isinstance(container, dict):
                container[draw(texts | st.sampled_from(["t", "type", "metrics", "w"]))] = draw(_odd)
            case "add":
                container.append(draw(_odd))
            case _ if key is not None:
                del container[key]
    return document


# --- one fault, planted ---------------------------------------------------------------


class Planted(NamedTuple):
    """A document with one fault."""

    document: Json
    path: str
    rule: str


def _wrong_type(document: Json, at: int) -> tuple[str, str]:
    document["events"][at]["type"] = "stop"
    return f"$.events[{at}].type", "schema"


def _bool_as_time(document: Json, at: int) -> tuple[str, str]:
    document["events"][at]["t"] = True
    return f"$.events[{at}].t", "schema"


def _negative_time(document: Json, at: int) -> tuple[str, str]:
    document["events"][at]["t"] = -1
    return f"$.events[{at}].t", "schema"


def _no_agent(document: Json, at: int) -> tuple[str, str]:
    del document["events"][at]["agent"]
    return f"$.events[{at}].agent", "schema"


def _extra_on_edge(document: Json, at: int) -> tuple[str, str]:
    first = document["events"][0]["id"]
    document["edges"].append({"src": first, "dst": first, "type": "temporal", "my weight": 1})
    return f'$.edges[{len(document["edges"]) - 1}]["my weight"]', "schema"


def _null_reward(document: Json, at: int) -> tuple[str, str]:
    document["rewards"]["none"] = None
    return "$.rewards.none", "schema"


def _nowhere(document: Json, at: int) -> tuple[str, str]:
    source = document["events"][at]["id"]
    document["edges"].append({"src": source, "dst": "nowhere", "type": "causal"})
    return f"$.edges[{len(document['edges']) - 1}].dst", "artifact"


def _negative_cost(document: Json, at: int) -> tuple[str, str]:
    document["costs"]["dollars"] = -0.5
    return "$.costs.dollars", "artifact"


def _twice(document: Json, at: int) -> tuple[str, str]:
    document["events"].insert(1, {**document["events"][0]})
    return "$.events[1].id", "artifact"


def _cycle(document: Json, at: int) -> tuple[str, str]:
    identity = document["events"][at]["id"]
    document["edges"].append({"src": identity, "dst": identity, "type": "causal"})
    return f"$.edges[{len(document['edges']) - 1}]", "orchtrace"


def _back_in_time(document: Json, at: int) -> tuple[str, str]:
    document["edges"].clear()
    first, last = document["events"][0], document["events"][-1]
    last["t"] = first["t"] + 1
    document["edges"].append({"src": last["id"], "dst": first["id"], "type": "message"})
    return "$.edges[0]", "orchtrace"


def _second_stop(document: Json, at: int) -> tuple[str, str]:
    document["events"].append({**document["events"][-1], "id": "again"})
    return f"$.events[{len(document['events']) - 1}].verb", "orchtrace"


def _after_stop(document: Json, at: int) -> tuple[str, str]:
    place = len(document["events"]) - 1
    document["events"].append({**document["events"][0], "id": "later"})
    document["events"][-1]["t"] = document["events"][place]["t"]
    return f"$.events[{place}].verb", "orchtrace"


Plant = Callable[[Json, int], tuple[str, str]]

LOCAL_FAULTS: tuple[Plant, ...] = (
    _wrong_type,
    _bool_as_time,
    _negative_time,
    _no_agent,
    _extra_on_edge,
    _null_reward,
    _nowhere,
    _negative_cost,
    _cycle,
)
"""Ways to spoil a document that leave all else at its place: several can be planted."""

FAULTS: tuple[Plant, ...] = (
    *LOCAL_FAULTS,
    _twice,
    _back_in_time,
    _second_stop,
    _after_stop,
)


@st.composite
def broken_documents(draw: st.DrawFn) -> Planted:
    """A sound document with one fault planted, and where and by which rule it must be found."""
    document = copy.deepcopy(draw(traces()).to_dict())
    plant = draw(st.sampled_from(FAULTS))
    path, rule = plant(document, draw(st.integers(0, len(document["events"]) - 1)))
    return Planted(document, path, rule)
