"""What is wrong with a document, fault by fault, each with its place.

`schema_faults` reads the shipped JSON Schema itself, a handful of keywords, so that a
fault says what must hold in our words and no library is needed to find it. It is slow;
`schema.py` asks jsonschema-rs first, where installed. `graph_faults` looks at what a
JSON Schema cannot say. Both take any object and pass over what they cannot read.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchtrace_otel.model import Json

Rule: TypeAlias = Literal["schema", "artifact", "orchtrace"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a document.

    Attributes:
        path: Where, such as `$.events[3].type`.
        must: What must hold there; reads on from the path.
        came: What came instead, shortened.
        rule: Who refuses it: the published `schema`, the checker of the published
            `artifact`, or only `orchtrace`; traces of others may well have the last.
    """

    path: str
    must: str
    came: str
    rule: Rule

    def __str__(self) -> str:
        return f"{self.path} {self.must}, came {self.came}"


class _Short(Repr):
    """Repr of a value in one short line, whatever the value is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60
        self.maxlevel = 2
        self.maxdict = self.maxlist = self.maxtuple = 4

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 - the signature of reprlib
        # Python refuses to print an integer of more than some thousand digits.
        return repr(x) if x.bit_length() <= 128 else f"an integer of {x.bit_length()} bits"  # noqa: PLR2004


_short: Final = _Short().repr


def _step(path: str, key: str) -> str:
    """The path of a key; a key that is no plain word is quoted."""
    plain = key.isascii() and key.isidentifier()
    return f"{path}.{key}" if plain else f"{path}[{json.dumps(key)}]"


# --- the schema -----------------------------------------------------------------------


@cache
def trace_schema() -> Json:
    """The shipped JSON Schema, as a document; not to be changed."""
    text = files("orchtrace_otel").joinpath("trace_schema.json").read_text(encoding="utf-8")
    return cast("Json", json.loads(text))


def _is_number(value: object) -> bool:
    """Whether JSON can write it as a number: a bool is none, nor are NaN and Infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


_IS_A: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, dict),
}

_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "enum": lambda value, limit: value in limit,
    "minimum": lambda value, limit: value >= limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "minItems": lambda value, limit: len(value) >= limit,
}

_WANTED: Final[Mapping[str, Callable[[Any], str]]] = {
    "enum": lambda limit: f", one of: {', '.join(limit)}",
    "minimum": lambda limit: f", at least {limit}",
    "minLength": lambda limit: f" of at least {limit} character",
    "minItems": lambda limit: f" of at least {limit} item",
}

_ARTICLES: Final = {"array": "an array", "object": "an object"}


def _resolve(node: Json) -> Json:
    """The schema node that a `$ref` names, or the node itself."""
    reference = node.get("$ref")
    return node if reference is None else trace_schema()["$defs"][reference.rsplit("/", 1)[1]]


def _fits(value: object, node: Json) -> bool:
    """Whether a value, without what is inside it, is what its schema node asks for."""
    return _IS_A[node["type"]](value) and all(
        holds(value, node[keyword]) for keyword, holds in _HOLDS.items() if keyword in node
    )


def _wanted(node: Json) -> str:
    """What a schema node asks for, in words."""
    kind = node["type"]
    limits = "".join(say(node[keyword]) for keyword, say in _WANTED.items() if keyword in node)
    return f"must be {_ARTICLES.get(kind, 'a ' + kind)}{limits}"


def schema_faults(value: object, node: Json | None = None, path: str = "$") -> Iterator[Fault]:
    """Every place where a document is not what the schema asks for, outermost first."""
    node = trace_schema() if node is None else _resolve(node)
    if not _fits(value, node):
        yield Fault(path, _wanted(node), _short(value), "schema")
    elif isinstance(value, dict):
        yield from _object_faults(cast("dict[object, object]", value), node, path)
    elif "items" in node:
        for index, item in enumerate(cast("list[object]", value)):
            yield from schema_faults(item, node["items"], f"{path}[{index}]")


def _object_faults(value: dict[object, object], node: Json, path: str) -> Iterator[Fault]:
    known: Json = node.get("properties", {})
    for key in node.get("required", ()):
        if key not in value:
            yield Fault(_step(path, key), _wanted(_resolve(known[key])), "nothing", "schema")
    others = node.get("additionalProperties", True)
    for key, item in value.items():
        if not isinstance(key, str):
            yield Fault(path, "must have strings as keys", _short(key), "schema")
        elif key in known:
            yield from schema_faults(item, known[key], _step(path, key))
        elif others is False:
            must = f"must not be there; the keys here are {', '.join(known)}"
            yield Fault(_step(path, key), must, _short(item), "schema")
        elif others is not True:
            yield from schema_faults(item, others, _step(path, key))


# --- what a schema cannot say ---------------------------------------------------------


def is_plainly_sound(document: Json) -> bool:
    """Whether a document that the schema accepts is sound at first sight.

    True where events are in order of time and every edge leads forward in that order,
    which is how we write: then it has no cycle and no cause after its effect. False
    says nothing; `graph_faults` looks closer.
    """
    events: list[Json] = document["events"]
    place = {event["id"]: index for index, event in enumerate(events)}
    times = [event["t"] for event in events]
    if len(place) != len(events) or times != sorted(times):
        return False
    if any(event.get("verb") == "stop" for event in events[:-1]):
        return False
    if any(cost < 0 for cost in document["costs"].values()):
        return False
    try:
        return all(place[edge["src"]] < place[edge["dst"]] for edge in document["edges"])
    except KeyError:
        return False


def graph_faults(document: object) -> Iterator[Fault]:
    """Every fault beyond the schema's; in linear time, for any object."""
    if not isinstance(document, dict):
        return
    document = cast("Json", document)
    events = _objects(document, "events")
    place: dict[str, int] = {}
    for index, event in events:
        identity = event.get("id")
        if not isinstance(identity, str):
            continue
        if identity in place:
            must = f"must be unique; $.events[{place[identity]}] has the same"
            yield Fault(f"$.events[{index}].id", must, _short(identity), "artifact")
        place.setdefault(identity, index)
    yield from _cost_faults(document)
    causes: list[tuple[int, int, int]] = []
    for index, edge in _objects(document, "edges"):
        yield from _dangling(index, edge, place)
        src, dst = _end(edge, "src"), _end(edge, "dst")
        if src in place and dst in place and edge.get("type") != "temporal":
            causes.append((index, place[src], place[dst]))
    known = dict(events)
    yield from _time_faults(causes, known)
    yield from _cycle_faults(causes, known)
    yield from _stop_faults(document["events"] if events else [], known)


def _objects(document: Json, key: str) -> list[tuple[int, Json]]:
    """The objects in the array `key`, each with its index; what is none is left out."""
    array = document.get(key)
    if not isinstance(array, list):
        return []
    items = enumerate(cast("list[object]", array))
    return [(index, cast("Json", item)) for index, item in items if isinstance(item, dict)]


def _end(edge: Json, key: str) -> str:
    """The event id at one end of an edge; empty, which names no event, where it is none."""
    identity = edge.get(key)
    return identity if isinstance(identity, str) else ""


def _cost_faults(document: Json) -> Iterator[Fault]:
    """Costs below 0 that the schema lets pass, because it has no name for them."""
    costs = document.get("costs")
    if not isinstance(costs, dict):
        return
    named = trace_schema()["properties"]["costs"]["properties"]
    for key, cost in cast("dict[object, Any]", costs).items():
        if isinstance(key, str) and key not in named and _is_number(cost) and cost < 0:
            must = "must be a number, at least 0"
            yield Fault(_step("$.costs", key), must, _short(cost), "artifact")


def _dangling(index: int, edge: Json, place: Mapping[str, int]) -> Iterator[Fault]:
    for key in ("src", "dst"):
        identity = _end(edge, key)
        # Where there is no id at all the schema has said so.
        if identity and identity not in place:
            must = "must be the id of an event"
            yield Fault(f"$.edges[{index}].{key}", must, _short(identity), "artifact")


def _time_faults(causes: list[tuple[int, int, int]], events: Mapping[int, Json]) -> Iterator[Fault]:
    for index, src, dst in causes:
        cause, effect = events[src].get("t"), events[dst].get("t")
        if (
            _is_number(cause)
            and _is_number(effect)
            and cast("float", cause) > cast("float", effect)
        ):
            must = "must not have its cause after its effect"
            came = f"$.events[{src}].t = {_short(cause)} and $.events[{dst}].t = {_short(effect)}"
            yield Fault(f"$.edges[{index}]", must, came, "orchtrace")


def _cycle_faults(
    causes: list[tuple[int, int, int]], events: Mapping[int, Json]
) -> Iterator[Fault]:
    """The edges that lead back in the order of events and lie on a cycle.

    Each cycle has at least one, so without them there is none.
    """
    back = [(index, src, dst) for index, src, dst in causes if dst <= src]
    if not back:
        return
    component = _components(max(events) + 1, causes)
    for index, src, dst in back:
        if component[src] == component[dst]:
            here, there = _short(events[src]["id"]), _short(events[dst]["id"])
            must = "must not close a cycle of causes"
            came = f"{here} -> {there}, which leads to {here}"
            yield Fault(f"$.edges[{index}]", must, came, "orchtrace")


def _components(size: int, causes: list[tuple[int, int, int]]) -> list[int]:
    """The strongly connected component of each node (Kosaraju), without recursion."""
    after: list[list[int]] = [[] for _ in range(size)]
    before: list[list[int]] = [[] for _ in range(size)]
    for _, src, dst in causes:
        after[src].append(dst)
        before[dst].append(src)
    component = [-1] * size
    for root in reversed(_postorder(after)):
        work = [root]
        while work:
            node = work.pop()
            if component[node] < 0:
                component[node] = root
                work.extend(before[node])
    return component


def _postorder(after: list[list[int]]) -> list[int]:
    """The nodes, each once everything that it leads to is done."""
    seen = bytearray(len(after))
    done: list[int] = []
    for root in range(len(after)):
        work = [root]
        while work:
            node = work.pop()
            if node < 0:  # the mark below: all that this node leads to is done
                done.append(~node)
            elif not seen[node]:
                seen[node] = 1
                work.append(~node)
                work.extend(after[node])
    return done


def _stop_faults(array: list[object], events: Mapping[int, Json]) -> Iterator[Fault]:
    stops = [index for index, event in events.items() if event.get("verb") == "stop"]
    for index in stops[1:]:
        must = f"must be the only stop; $.events[{stops[0]}] is one"
        yield Fault(f"$.events[{index}].verb", must, "'stop'", "orchtrace")
    if stops and stops[-1] != len(array) - 1:
        must = "must be the last event where it is a stop"
        came = f"{len(array) - 1 - stops[-1]} more after it"
        yield Fault(f"$.events[{stops[-1]}].verb", must, came, "orchtrace")
