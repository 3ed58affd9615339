"""The orchestration trace as plain values: Trace, Event, Edge, Turn, Reward.

Frozen, slotted, standard library only. A trace holds what the published schema
holds; what the schema leaves open (an event's other keys) is kept as it came, so
that reading and writing a document gives an equal document.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeGuard, cast

from orchtrace_otel.errors import TraceFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Json: TypeAlias = dict[str, Any]

EVENT_TYPES: Final = (
    "orchestrator_decision",
    "spawn",
    "despawn",
    "message",
    "tool_call",
    "tool_result",
    "return",
    "aggregate",
    "human_intervention",
    "safety_event",
)
"""What the published schema calls the kinds of event."""

EDGE_TYPES: Final = (
    "temporal",
    "causal",
    "spawn",
    "message",
    "tool_dependency",
    "return",
    "aggregate",
    "safety_flow",
)
"""What the published schema calls the kinds of edge; all but `temporal` are causes."""

TOPOLOGIES: Final = (
    "centralized",
    "planner_executor_critic",
    "debate",
    "swarm",
    "hierarchical",
    "harness",
    "mixed",
    "unknown",
)

VERBS: Final[Mapping[str, tuple[str, str | None]]] = {
    "begin": ("message", None),
    "decide": ("orchestrator_decision", None),
    "spawn": ("spawn", "O1"),
    "despawn": ("despawn", "O1"),
    "delegate": ("orchestrator_decision", "O2"),
    "message": ("message", "O3"),
    "aggregate": ("aggregate", "O4"),
    "stop": ("orchestrator_decision", "O5"),
    "tool_call": ("tool_call", None),
    "tool_result": ("tool_result", None),
    "return": ("return", None),
    "human_intervention": ("human_intervention", None),
    "safety_event": ("safety_event", None),
}
"""Our verbs: each one's event type in the schema, and the decision it is, if any."""

STOP_REASONS: Final = (
    "information_complete",
    "quality_met",
    "verified",
    "max_steps",
    "token_budget",
    "time_budget",
    "no_progress",
    "loop",
    "deadlock",
    "handoff",
    "paused",
    "external",
    "cancelled",
    "consumer_closed",
    "error",
    "unknown",
)

STATUSES: Final = ("ok", "error", "cancelled", "paused")

FAMILIES: Final = ("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8")

UNITS: Final = (
    "token",
    "turn",
    "message",
    "tool_call",
    "agent",
    "role",
    "orchestrator",
    "team",
)

ESTIMATORS: Final = ("structural", "outcome", "judge", "replay", "model")


def read_json(text: str | bytes) -> Any:
    """Read JSON text as the standard says, which Python's reader takes more widely.

    Bytes are UTF-8, with or without a byte order mark, and numbers are finite: what
    could not be written again is refused here. Integers of any size stay exact.

    Raises:
        ValueError: If the text is not JSON.
    """
    if isinstance(text, (bytes, bytearray)):
        text = text.decode()
    if not isinstance(cast("object", text), str):
        msg = f"a {type(text).__name__} is no text; Trace.from_dict takes what was read already"
        raise ValueError(msg)  # noqa: TRY004 - what callers ask for, as of any other wrong text
    text = text.removeprefix("\ufeff")
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        msg = f"a number in JSON must be finite and fit a double, came {literal}"
        raise ValueError(msg)
    return number


# A run has more events and edges than anything else. What fills the slots of a frozen
# dataclass, `object.__setattr__`, takes twice the time of the slots' own setters, so
# these two are filled by their own `__init__`.


@dataclass(frozen=True, slots=True, init=False)
class Edge:
    """A cause and its effect: ids of two events, and how the one led to the other."""

    src: str
    dst: str
    type: str

    def __init__(self, src: str, dst: str, type: str) -> None:  # noqa: A002 - the schema's name
        _set_src(self, src)
        _set_dst(self, dst)
        _set_edge_type(self, type)

    def to_dict(self) -> Json:
        """The edge as the schema writes it."""
        return {"src": self.src, "dst": self.dst, "type": self.type}


_slots: Any = Edge
_set_src, _set_dst = _slots.src.__set__, _slots.dst.__set__
_set_edge_type = _slots.type.__set__


@dataclass(frozen=True, slots=True, init=False)
class Event:
    """One node of the graph.

    Attributes:
        id: Unique inside the trace.
        t: Seconds since the run began, at least 0; an int is kept as one.
        type: One of `EVENT_TYPES`.
        agent: Name of the agent that did it.
        keys: Every other key of the event, in the order they came. `event["verb"]`
            reads one, `event.get("to")` reads one that may be absent.
    """

    id: str
    t: float
    type: str
    agent: str
    keys: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __init__(
        self,
        id: str,  # noqa: A002 - the schema's name
        t: float,
        type: str,  # noqa: A002 - the schema's name
        agent: str,
        keys: Mapping[str, Any] | None = None,
    ) -> None:
        _set_id(self, id)
        _set_t(self, t)
        _set_type(self, type)
        _set_agent(self, agent)
        _set_keys(self, {} if keys is None else keys)

    def __getitem__(self, key: str) -> Any:
        return self.keys[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the event's key `key` beyond the four it must have, or `default`."""
        return self.keys.get(key, default)

    @property
    def verb(self) -> str:
        """What was done, in our words; for a foreign trace the event's type."""
        return str(self.keys.get("verb", self.type))

    @property
    def is_stop(self) -> bool:
        """Whether it ends its run, in our words or in those of others.

        Others know no verbs; they write a decision `stop`, or a reason.
        """
        if self.type != "orchestrator_decision":
            return False
        keys = self.keys
        return keys.get("verb") == "stop" or keys.get("decision") == "stop" or "stop_reason" in keys

    def to_dict(self) -> Json:
        """The event as the schema writes it."""
        return {
            "id": self.id,
            "t": self.t,
            "type": self.type,
            "agent": self.agent,
            **self.keys,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read an event; the four keys it must have are taken as they are."""
        keys = dict(document)
        return cls(keys.pop("id"), keys.pop("t"), keys.pop("type"), keys.pop("agent"), keys)


_slots = Event
_set_id, _set_t, _set_type = _slots.id.__set__, _slots.t.__set__, _slots.type.__set__
_set_agent, _set_keys = _slots.agent.__set__, _slots.keys.__set__


@dataclass(frozen=True, slots=True)
class _Record:
    """A record of the stop event: absent fields are unknown, never null or 0."""

    def to_dict(self) -> Json:
        """The record's known fields."""
        names = self.__dataclass_fields__
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read a record; keys that are not ours are left out."""
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(_Record):
    """One LLM call by an agent: what a policy did.

    Attributes:
        id: Span id of the call, 16 hexadecimal digits.
        activation: Span id of the stretch of work it belongs to.
        agent: Name of the agent that called.
        instance: Which life of that agent.
        t: Seconds since the run began.
        duration_s: Seconds it took.
        model: The model that answered, else the one that was asked for.
        provider: Who serves it, in the words of the GenAI conventions.
        input_tokens: Tokens read; absent where the provider does not say.
        output_tokens: Tokens written; absent where the provider does not say.
        finish_reason: Why it ended, in the provider's words.
        status: One of `STATUSES`.
        event: Id of the event that carries its tokens.
        prompt_ref: Where the prompt is kept, where content is captured.
        completion_ref: Where the completion is kept, where content is captured.
        content_ref: Where all of the turn is kept, its tokens too; `content.read_turn` reads it.
        causality: `inferred` where only time says whose call it was; absent where it is known.
        policy_version: Version of the policy that took it, where somebody said it.
    """

    id: str
    activation: str | None = None
    agent: str | None = None
    instance: str | None = None
    t: float | None = None
    duration_s: float | None = None
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    status: str | None = None
    event: str | None = None
    prompt_ref: str | None = None
    completion_ref: str | None = None
    content_ref: str | None = None
    causality: str | None = None
    policy_version: str | None = None

    @property
    def tokens(self) -> int | None:
        """Tokens read and written; None where either side is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward(_Record):
    """A number for a named component of a family, attached to a unit.

    Attributes:
        id: Unique; a reward that is sent twice counts once.
        component: Its name, such as `correctness`.
        value: The number; finite.
        family: One of `FAMILIES`.
        unit: One of `UNITS`: what `target` names.
        target: Id of the event, name of the agent or role, or None for the team.
        estimator: One of `ESTIMATORS`: how the number came about.
        provisional: Whether a later one may replace it.
        n: How many observations it is the mean of.
        se: Standard error of that mean.
        version: Version of the formula or the judge.
    """

    id: str
    component: str
    value: float
    family: str = "R1"
    unit: str = "team"
    target: str | None = None
    estimator: str = "outcome"
    provisional: bool = False
    n: int | None = None
    se: float | None = None
    version: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether every field holds what it may; users' functions and other processes may err."""
        return self.fault is None

    @property
    def fault(self) -> str | None:
        """The first field that does not hold what it must, and that; None where all do.

        Example:
            >>> Reward(id="a", component="correctness", value=1.0, n="two").fault
            'n must be a whole number of 64 bits'
        """
        for name, holds, must in _OF_A_REWARD:
            if not holds(getattr(self, name)):
                return f"{name} must be {must}"
        return None


def plain_text(given: object) -> str:
    """Return a text of a class of its own, such as a member of an enum, as what it holds.

    Formatting would ask its class, which says something else. What is no text is formatted.

    Example:
        >>> from enum import Enum
        >>> class Name(str, Enum):
        ...     CRITIC = "critic"
        >>> plain_text(Name.CRITIC), f"{Name.CRITIC}"
        ('critic', 'Name.CRITIC')
    """
    return str.__str__(given) if isinstance(given, str) else str(given)


def is_text(value: object) -> TypeGuard[str]:
    r"""Whether a value is a text that UTF-8 can hold; half a surrogate pair is none.

    Example:
        >>> is_text("caf\u00e9"), is_text("caf\ud83d"), is_text(5)
        (True, False, False)
    """
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _is_name(value: object) -> bool:
    return is_text(value) and value != ""


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and abs(value) < 1 << 63


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number that a double or 64 bits hold.

    Example:
        >>> is_number(0.5), is_number(float("nan")), is_number(10**400), is_number("1")
        (True, False, False, False)
    """
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _or_none(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or holds(value)


def _one_of(words: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in words


_OF_A_REWARD: Final = (
    ("id", is_text, "a text of UTF-8"),
    ("component", _is_name, "a text of UTF-8 with something in it"),
    ("value", is_number, "a finite number"),
    ("family", _one_of(FAMILIES), f"one of {', '.join(FAMILIES)}"),
    ("unit", _one_of(UNITS), f"one of {', '.join(UNITS)}"),
    ("target", _or_none(is_text), "a text of UTF-8"),
    ("estimator", _one_of(ESTIMATORS), f"one of {', '.join(ESTIMATORS)}"),
    ("provisional", _is_whole, "True or False"),
    ("n", _or_none(_is_whole), "a whole number of 64 bits"),
    ("se", _or_none(is_number), "a finite number"),
    ("version", _or_none(is_text), "a text of UTF-8"),
)
"""Each field of a reward, whether a value may be in it, and what must hold."""

_NO_REWARD: Final = {"id": None, "component": None, "value": None}
"""What a record must say to be a reward."""


_OF_A_TURN: Final = (
    ("id", _is_name),
    *((name, _or_none(is_text)) for name in ("activation", "agent", "instance", "model", "event")),
    *((name, _or_none(is_number)) for name in ("input_tokens", "output_tokens")),
)
"""Fields of a turn that others build on, and whether a value may be in them."""


_LISTS: Final[Any] = (list, tuple)


def items_of(event: Event | None, key: str) -> Sequence[object]:
    """What an event lists under `key`; nothing where others keep something else there."""
    held: Any = None if event is None else event.keys.get(key)
    return held if isinstance(held, _LISTS) else ()


def records_of(event: Event | None, key: str) -> Sequence[Json]:
    """The records that an event lists under `key`; none where one of them is something else.

    Example:
        >>> records_of(Event("e", 0, "aggregate", "a", {"turn_records": 3}), "turn_records")
        ()
    """
    held: Any = None if event is None else event.keys.get(key)
    if not held or not isinstance(held, _LISTS):
        return ()
    # In one step: there may be one for each agent and method of credit.
    return held if {dict}.issuperset(map(type, held)) else ()


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of a team, from a task to a stop.

    Attributes:
        trace_id: The run's id, `<OTel trace id>-<span id of its root>`.
        task_id: What was asked; runs of one task share it.
        events: In order of time; the last one is the stop.
        edges: From causes to effects, ids of events.
        rewards: Component to number, of the eight families.
        costs: `tokens` and `wall_clock_s` at least.
        system: `langgraph`, `autogen` or `python`; None where the document has none.
        topology: One of `TOPOLOGIES`; None where the document has none.
        metrics: Structural measure to number; None where the document has none.
    """

    trace_id: str
    task_id: str
    events: tuple[Event, ...]
    edges: tuple[Edge, ...] = ()
    rewards: Mapping[str, float] = field(default_factory=dict[str, float])
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    system: str | None = None
    topology: str | None = None
    metrics: Mapping[str, float] | None = None

    @property
    def stop(self) -> Event | None:
        """The run's last event where that ended it; None while it is open, as far as is told."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last.is_stop else None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The LLM calls of the run, by start; what others keep in their place is none."""
        return tuple(
            Turn.from_dict(record)
            for record in records_of(self.stop, "turn_records")
            if all(holds(record.get(name)) for name, holds in _OF_A_TURN)
        )

    @property
    def reward_records(self) -> tuple[Reward, ...]:
        """Every reward with its family, unit, target and estimator; likewise."""
        found = (
            Reward.from_dict({**_NO_REWARD, **record})
            for record in records_of(self.stop, "reward_records")
        )
        return tuple(reward for reward in found if reward.is_sound)

    @property
    def flags(self) -> tuple[str, ...]:
        """What the trace says it lost; empty where nothing was lost."""
        return tuple(filter(is_text, items_of(self.stop, "flags")))

    def to_dict(self) -> Json:
        """The trace as a document of the published schema."""
        return self.around(
            [event.to_dict() for event in self.events], [edge.to_dict() for edge in self.edges]
        )

    def around(self, events: Any, edges: Any) -> Json:
        """The document around its events and edges, in whatever form these are written already."""
        document: Json = {"trace_id": self.trace_id, "task_id": self.task_id}
        if self.system is not None:
            document["system"] = self.system
        if self.topology is not None:
            document["topology"] = self.topology
        document["events"] = events
        document["edges"] = edges
        document["rewards"] = dict(self.rewards)
        document["costs"] = dict(self.costs)
        if self.metrics is not None:
            document["metrics"] = dict(self.metrics)
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read a document that the published schema accepts; nothing is checked here.

        `orchtrace_otel.schema.check` says what is wrong with a document.
        """
        metrics = document.get("metrics")
        return cls(
            trace_id=document["trace_id"],
            task_id=document["task_id"],
            events=tuple(Event.from_dict(event) for event in document["events"]),
            edges=tuple(Edge(edge["src"], edge["dst"], edge["type"]) for edge in document["edges"]),
            rewards=dict(document["rewards"]),
            costs=dict(document["costs"]),
            system=document.get("system"),
            topology=document.get("topology"),
            metrics=None if metrics is None else dict(metrics),
        )

    def to_json(self) -> str:
        """The trace as JSON text of the published schema.

        `orchtrace_otel.schema.dump` writes the same document faster, as bytes.
        """
        document = self.to_dict()
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        try:
            text.encode()
        except (
            UnicodeEncodeError
        ):  # half a surrogate pair, which JSON can escape but UTF-8 not hold
            text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        return text

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read JSON text that the published schema accepts.

        `orchtrace_otel.schema.load` checks that it does, and names every fault.

        Raises:
            TraceFormatError: If the text is no JSON, or no trace can be made of it.

        Example:
            >>> text = '''{"trace_id": "r", "task_id": "q", "rewards": {}, "edges": [],
            ...   "costs": {"tokens": 0, "wall_clock_s": 1},
            ...   "events": [{"id": "e", "t": 0, "type": "spawn", "agent": "a"}]}'''
            >>> Trace.from_json(text).events[0].agent
            'a'
        """
        try:
            document = read_json(text)
        except (ValueError, RecursionError) as error:
            msg = f"a trace must be a JSON document, came one that cannot be read: {error}"
            raise TraceFormatError(msg) from error
        try:
            return cls.from_dict(document)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            msg = (
                "a trace must be a document that the published schema accepts, came one of "
                f"another shape ({type(error).__name__}: {error}); `orchtrace validate` says more"
            )
            raise TraceFormatError(msg) from error
