"""Writing, reading and checking documents of the schema; files of them; the page of keys."""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import lzma
import math
import sys
from codecs import BOM_UTF8
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from orchtrace_otel import model, schema
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.schema import Fault, Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def event(identity: str = "e", t: float = 0, **keys: Any) -> dict[str, Any]:
    """An event of a document."""
    return {"id": identity, "t": t, "type": "spawn", "agent": "a", **keys}


def document(*events: dict[str, Any], edges: tuple[str, ...] = (), **keys: Any) -> dict[str, Any]:
    """A document; edges are written `a>b`, or `a>b:type`."""
    ends = [(*edge.partition(":")[0].split(">"), edge.partition(":")[2]) for edge in edges]
    return {
        "trace_id": "r",
        "task_id": "q",
        "events": list(events) or [event()],
        "edges": [{"src": src, "dst": dst, "type": kind or "causal"} for src, dst, kind in ends],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 0},
        **keys,
    }


def found(source: object) -> list[str]:
    """What `check` says, as text."""
    return [str(fault) for fault in schema.check(source)]


@pytest.fixture(params=["jsonschema-rs", "without", "too old"])
def validator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check with jsonschema-rs, as where it is not installed, and as where it is too old."""
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    if request.param == "too old":
        monkeypatch.setattr(schema, "version", lambda name: "0.29.1")
    schema._compiled.cache_clear()
    yield
    schema._compiled.cache_clear()


# --- the shipped schema ---------------------------------------------------------------


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every node of a JSON Schema."""
    yield node
    for key in ("properties", "$defs"):
        for inner in node.get(key, {}).values():
            yield from nodes(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key])


def test_the_schema_uses_only_keywords_that_we_read() -> None:
    """Faults are found by reading the schema ourselves, so it must not say more than we read."""
    said = {"$schema", "$id", "title", "description", "$defs", "$ref", "type", "enum", "minLength"}
    said |= {"minimum", "minItems", "items", "properties", "required", "additionalProperties"}
    assert {key for node in nodes(schema.trace_schema()) for key in node} <= said


def test_the_schema_and_the_model_have_the_same_words() -> None:
    """The types of events and edges and the topologies are written down twice, the same."""
    shipped = schema.trace_schema()
    kinds = {
        name: shipped["$defs"][name]["properties"]["type"]["enum"] for name in ("event", "edge")
    }
    assert tuple(kinds["event"]) == model.EVENT_TYPES
    assert tuple(kinds["edge"]) == model.EDGE_TYPES
    assert tuple(shipped["properties"]["topology"]["enum"]) == model.TOPOLOGIES


# --- checking -------------------------------------------------------------------------


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


# --- writing --------------------------------------------------------------------------


def trace(**keys: Any) -> Trace:
    """A trace whose one event has the given keys."""
    return Trace(
        "r", "q", (Event("e", 0, "spawn", "a", keys),), costs={"tokens": 0, "wall_clock_s": 0}
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"x": math.nan}, "$.events[0].x must be finite, came nan; leave out what is not known"),
        ({"x": [1, {"y": -math.inf}]}, "$.events[0].x[1].y must be finite, came -inf"),
        ({"x": math.nan, "y": 2**64}, "$.events[0].x must be finite, came nan"),
        ({"x": {1: 2}}, "$.events[0].x must have strings as keys, came 1"),
        ({"x": {1}}, "$.events[0].x must be a value of JSON, came a set"),
        (
            {"x": datetime(2026, 1, 1, tzinfo=UTC)},
            "$.events[0].x must be a value of JSON, came a datetime",
        ),
        ({"x": Event("e", 0, "spawn", "a")}, "$.events[0].x must be a value of JSON, came a Event"),
    ],
)
def test_what_json_has_no_word_for_is_not_written(keys: dict[str, Any], said: str) -> None:
    """A value that would be lost or changed is refused, and its place is named."""
    with pytest.raises(TraceFormatError) as raised:
        schema.dump(trace(**keys))
    assert str(raised.value).startswith(said)


def test_a_circle_is_not_written() -> None:
    """What holds itself has no end in JSON."""
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(TraceFormatError, match="must hold JSON only, came: Circular reference"):
        schema.dump(trace(x=circle))


def test_a_null_and_the_word_are_written() -> None:
    """Only numbers that are none are refused; null is a value, and a text may hold the word."""
    assert json.loads(schema.dump(trace(x=None, y="null")))["events"][0]["x"] is None


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**63) - 1, "\ud800", [[["\udc00"]]], ("a", 1), 1.0, -0.0, 5e-324, "\u2028\n"],
)
def test_what_can_be_read_can_be_written(value: object) -> None:
    """Where orjson stops the standard library goes on; the text is one line of UTF-8."""
    text = schema.dump(trace(x=value))
    assert b"\n" not in text
    read = schema.load(text).events[0]["x"]
    assert repr(read) == repr(list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30])
@pytest.mark.parametrize("before", ["", " ", "\n", "\t", "\r", "[", "[1,", '{"a":', "[ ", "[1, "])
def test_whole_numbers_stay_exact_wherever_they_stand(number: int, before: str) -> None:
    """Of 19 digits, 20 or more, after whatever a number may follow."""
    value = before + str(number) + {"[": "]", "{": "}"}.get(before[:1], "")
    text = json.dumps(document(event(x="HERE", id=f"{10**31}"))).replace('"HERE"', value)
    assert schema.load(text).events[0]["x"] == json.loads(value)


def nested(depth: int) -> str:
    """JSON text of a document with arrays that deep."""
    text = json.dumps(document(event(x="HERE")))
    return text.replace('"HERE"', "[" * depth + "]" * depth)


def test_deep_documents_are_read_and_written() -> None:
    """Deeper than orjson writes, as long as Python itself can follow."""
    text = nested(400)
    assert json.loads(schema.dump(schema.load(text))) == json.loads(text)
    assert schema.check(json.loads(text)) == []


def test_what_is_too_deep_is_said_to_be() -> None:
    """Beyond Python's limit there is an error of ours, not a RecursionError."""
    with pytest.raises(TraceFormatError, match="must be a JSON document, came one nested deeper"):
        schema.load(nested(200_000))
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(TraceFormatError, match="must not be nested as deep"):
        schema.dump(trace(x=deep))


# --- reading --------------------------------------------------------------------------


def test_a_text_that_is_no_trace_names_its_first_faults() -> None:
    """Three faults are said, and how many more there are."""
    wrong = document(*(event(str(n), -1) for n in range(5)))
    with pytest.raises(TraceFormatError) as raised:
        schema.load(json.dumps(wrong))
    first = [f"$.events[{n}].t must be a number, at least 0, came -1" for n in range(3)]
    assert str(raised.value) == "; ".join(first) + "; and 2 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": ]', "$ must be a JSON document, came '{\"a\": ]' at column 7 (Expecting value)"),
        ("", "$ must be a JSON document, came '' at column 1 (Expecting value)"),
        ('{"a": NaN}', "$ must be a JSON document, came a number in JSON must be finite"),
        (b"\xff{}", "$ must be a JSON document, came 'utf-8' codec can't decode byte 0xff"),
        pytest.param(
            "9" * 5000, "$ must be a JSON document, came Exceeds the limit (4300", id="long"
        ),
        ("[]", "$ must be an object, came []"),
    ],
)
def test_a_text_that_is_no_json_is_a_trace_format_error(text: str | bytes, said: str) -> None:
    """Whatever the text is, the error is ours and says what came."""
    with pytest.raises(TraceFormatError) as raised:
        schema.load(text)
    assert str(raised.value).startswith(said)


def test_load_takes_what_only_we_refuse() -> None:
    """Traces of others are read: what is no fault of the schema is left to `check`."""
    foreign = document(event("a"), event("a"), edges=("a>x", "a>a"))
    assert schema.load(json.dumps(foreign)).to_dict() == foreign


# --- files ----------------------------------------------------------------------------

GOOD = json.dumps(document()).encode()
TRACE = Trace.from_dict(document())


def lines(tmp_path: Path, content: bytes) -> list[Line]:
    """What is read from a file of that content."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(content)
    return list(schema.read_lines(path))


@pytest.mark.parametrize(
    "content",
    [
        GOOD + b"\n" + GOOD + b"\n",
        GOOD + b"\n" + GOOD,
        BOM_UTF8 + GOOD + b"\r\n" + GOOD + b"\r\n",
    ],
)
def test_a_file_of_lines_is_read_line_by_line(tmp_path: Path, content: bytes) -> None:
    """With any line ending, a byte order mark, and a last line with or without its end."""
    assert lines(tmp_path, content) == [Line(1, TRACE), Line(2, TRACE)]


@pytest.mark.parametrize(
    ("content", "came"),
    [
        (gzip.compress(b"\n".join([GOOD] * 9)), "packed with gzip; unpack it first"),
        (lzma.compress(GOOD), "packed with xz; unpack it first"),
        (bz2.compress(GOOD), "packed with bzip2; unpack it first"),
        (b"PAR1\n\n\n", "a Parquet file; `orchtrace convert` reads"),
        (GOOD.decode().encode("utf-16"), "text of UTF-16; save it as UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_one_fault_that_says_what_to_do(
    tmp_path: Path, content: bytes, came: str
) -> None:
    """Not one for each line feed among its bytes."""
    [line] = lines(tmp_path, content)
    assert (line.number, line.trace, len(line.faults)) == (1, None, 1)
    assert came in line.faults[0].came


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    """They hold nothing, but they count as lines."""
    assert lines(tmp_path, b"\n \n" + GOOD + b"\n\n" + GOOD) == [Line(3, TRACE), Line(5, TRACE)]
    assert lines(tmp_path, b"") == []
    assert lines(tmp_path, b"\n\n") == []


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
@pytest.mark.parametrize("indent", [0, 2])
def test_one_document_over_many_lines_is_read(tmp_path: Path, indent: int, mark: bytes) -> None:
    """A trace that was printed for people is a file of one trace."""
    pretty = mark + b"\n" + json.dumps(document(), indent=indent).encode() + b"\n"
    assert lines(tmp_path, pretty) == [Line(2, TRACE)]


def test_a_fault_in_a_document_over_many_lines_is_on_its_line(tmp_path: Path) -> None:
    """Where it stops to be JSON is said by line and column."""
    pretty = json.dumps(document(), indent=2).replace('"t": 0', '"t": zero').encode()
    [line] = lines(tmp_path, pretty + b"\n")
    assert (line.number, line.trace) == (7, None)
    assert "at column 12 (Expecting value)" in line.faults[0].came


def test_a_line_that_is_no_trace_does_not_hide_the_next(tmp_path: Path) -> None:
    """Each line is judged alone."""
    bad = json.dumps(document(event(t=-1), event("b", verb=3), edges=("e>x",))).encode()
    dangling = document(edges=("e>x",))
    content = b"\n".join([bad, b"{]", GOOD, json.dumps(dangling).encode(), b"\xff", b"3", b""])
    nowhere = Fault("$.edges[0].dst", "must be the id of an event", "'x'", "artifact")
    read = lines(tmp_path, content)
    assert [line.number for line in read] == [1, 2, 3, 4, 5, 6]
    assert [line.trace for line in read] == [
        None,
        None,
        TRACE,
        Trace.from_dict(dangling),
        None,
        None,
    ]
    assert read[0].faults == (
        Fault("$.events[0].t", "must be a number, at least 0", "-1", "schema"),
        nowhere,
    )
    assert read[3].faults == (nowhere,)
    assert [len(line.faults) for line in read] == [2, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("cut", [1, 9, 10, 20, len(GOOD) - 1])
def test_a_last_line_that_breaks_off_is_said_to(tmp_path: Path, cut: int) -> None:
    """What a killed writer left is a fault, and what was written before it is read."""
    [first, last] = lines(tmp_path, GOOD + b"\n" + GOOD[:cut])
    assert first == Line(1, TRACE)
    assert (last.number, last.trace) == (2, None)
    assert last.faults[0].must == "must be a JSON document, written to its end"


@pytest.mark.parametrize("cut", [1, 9, 10, 20, len(GOOD) - 1])
@pytest.mark.parametrize("before", [b"", GOOD + b"\n"])
def test_half_a_line_at_the_end_of_a_file_that_is_written_is_left_out(
    tmp_path: Path, cut: int, before: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer is at it, or was killed: that is told, and is no fault; anywhere else it is one."""
    schema.writers_lock(tmp_path / "traces.jsonl").touch()
    number = 1 + before.count(b"\n")
    assert lines(tmp_path, before + GOOD[:cut]) == ([Line(1, TRACE)] if before else [])
    assert f"traces.jsonl:{number}: left out, for it is not written to its end" in caplog.text
    assert lines(tmp_path, before + GOOD)[-1] == Line(number, TRACE)
    _, half, last = lines(tmp_path, GOOD + b"\n" + GOOD[:cut] + b"\n" + GOOD)
    assert (half.trace, len(half.faults), last) == (None, 1, Line(3, TRACE))


@pytest.mark.parametrize("cut", [1, 9, 10, 20, len(GOOD) - 1])
def test_a_first_line_that_breaks_off_does_not_swallow_the_others(tmp_path: Path, cut: int) -> None:
    """Half a line at the start of a file is not taken for one document over many lines."""
    first, *others = lines(tmp_path, GOOD[:cut] + b"\n" + GOOD + b"\n" + GOOD + b"\n")
    assert (first.number, first.trace, len(first.faults)) == (1, None, 1)
    assert others == [Line(2, TRACE), Line(3, TRACE)]


def test_a_file_of_one_broken_line_is_one_fault(tmp_path: Path) -> None:
    """Also where it looks like the opening of more."""
    for text in (b"{", b"{\n", b"nonsense\n", b"\x00\xff\n"):
        [line] = lines(tmp_path, text)
        assert (line.number, line.trace, len(line.faults)) == (1, None, 1)


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    """A file that grows too large for memory is still read."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(GOOD + b"\n")
    reading = schema.read_lines(path)
    assert next(reading) == Line(1, TRACE)
    with path.open("ab") as file:
        file.write(GOOD + b"\n")
    assert list(reading) == [Line(2, TRACE)]


def test_a_file_that_cannot_be_opened_is_an_os_error(tmp_path: Path) -> None:
    """That is no fault of a trace."""
    with pytest.raises(FileNotFoundError):
        list(schema.read_lines(tmp_path / "none.jsonl"))
