"""A team's run as its messages tell it: who spoke when, and what its tools gave it on the way."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
)
from autogen_core import FunctionCall
from autogen_core.models import FunctionExecutionResult, RequestUsage

from orchtrace_otel.content import active, open_store
from orchtrace_otel.errors import ConfigError, ContentError
from orchtrace_otel.replay import Slot

if TYPE_CHECKING:
    from orchtrace_otel.content import Store
    from orchtrace_otel.model import Event, Trace

BROADCAST: Final = "broadcast"
_GROUP: Final = "group"


@dataclass(slots=True)
class Spoken:
    """A turn of a participant.

    Attributes:
        speaker: Who had it.
        message: What it ended with.
        inner: What came before: calls of tools and what they gave.
        slot: The message as a player; None for a hand-off, which is none.
        said_at: When, in seconds since the epoch.
    """

    speaker: str
    message: BaseChatMessage
    inner: list[BaseAgentEvent] = field(default_factory=list[BaseAgentEvent])
    slot: Slot | None = None
    said_at: float = 0.0


@dataclass(slots=True)
class Record:
    """A run of a team.

    Attributes:
        task: What it was asked.
        turns: What its participants said, in order.
    """

    task: Sequence[BaseChatMessage]
    turns: Sequence[Spoken]

    def __post_init__(self) -> None:
        counts: Counter[str] = Counter()
        for turn in self.turns:
            if not isinstance(turn.message, HandoffMessage):
                counts[turn.speaker] += 1
                turn.slot = Slot(turn.speaker, BROADCAST, counts[turn.speaker])


def of_messages(messages: Sequence[Any], trace: Trace, names: Sequence[str]) -> Record:
    """Read a run off the messages of its `TaskResult`.

    A task may hold messages in the names of participants; the trace tells how many they said.

    Raises:
        ConfigError: If it does not begin with the task.
    """
    task: list[BaseChatMessage] = []
    turns: list[Spoken] = []
    inner: defaultdict[str, list[BaseAgentEvent]] = defaultdict(list)
    given = Counter(str(one.source) for one in messages if not isinstance(one, BaseAgentEvent))
    given.subtract(event.agent for event in trace.events if event.get("channel") == _GROUP)
    for message in messages:
        source = str(message.source)
        if not turns and given[source] > 0 and isinstance(message, BaseChatMessage):
            given[source] -= 1
            task.append(message)
        elif isinstance(message, BaseAgentEvent):
            inner[source].append(message)
        elif source in names:
            said_at = message.created_at.timestamp()
            turns.append(Spoken(source, message, inner.pop(source, []), said_at=said_at))
    if not task or not turns:
        msg = "the messages of a run must begin with its task; run with output_task_messages=True"
        raise ConfigError(msg)
    return Record(task, turns)


def of_content(trace: Trace, names: Sequence[str], store: Store | str | Path | None) -> Record:
    """Read a run off what was captured of it.

    Raises:
        ConfigError: If its messages were not captured, or not as they were.
    """
    reader = _Reader(trace, names, _opened(store))
    return Record(reader.task(), reader.turns())


def _opened(store: Store | str | Path | None) -> Store:
    if store is None:
        recorder = active()
        where = None if recorder is None else recorder.capture.store
        if recorder is None or where is None:
            msg = (
                "a team is rebuilt from its messages, and no content is captured; give "
                "Recorded(team=..., messages=result.messages), or store=... of the recorded run"
            )
            raise ConfigError(msg)
        recorder.flush(10.0)
        store = where
    return open_store(str(store)) if isinstance(store, str | Path) else store


class _Reader:
    """Turns what was captured back into messages."""

    def __init__(self, trace: Trace, names: Sequence[str], store: Store) -> None:
        self._trace = trace
        self._names = names
        self._store = store
        self._began = float(trace.events[0].get("start_unix_nano", 0)) / 1e9
        self._results = {e.id: e for e in trace.events if e.id.endswith(".close")}
        self._asked = {turn.id: turn for turn in trace.turns}

    def task(self) -> list[BaseChatMessage]:
        """Return what the team was asked."""
        given = self._value(self._trace.events[0])
        is_many: bool = given.__class__ is list
        words: list[Any] = given if is_many else [given]
        return [TextMessage(content=_text(one), source="user") for one in words]

    def turns(self) -> list[Spoken]:
        """Return what its participants said."""
        found: list[Spoken] = []
        calls: defaultdict[str, list[Event]] = defaultdict(list)
        for event in sorted(self._trace.events, key=lambda one: one.t):
            place = str(event.get("activation"))
            if event.verb == "tool_call" and event.id.endswith(".open"):
                calls[place].append(event)
            elif event.get("channel") == _GROUP and event.agent in self._names:
                found.append(self._spoken(event, calls.pop(place, [])))
                found[-1].said_at = self._began + event.t
        return found

    def _spoken(self, event: Event, calls: Sequence[Event]) -> Spoken:
        inner = self._inner(event.agent, calls)
        words = _text(self._value(event))
        usage = self._usage(event)
        if event.verb == "delegate":
            target = str(event["to"])
            said = HandoffMessage(
                content=words, source=event.agent, target=target, models_usage=usage
            )
            return Spoken(event.agent, said, inner)
        # One that no model wrote is what tools gave, put into one text.
        if calls and not event.get("turns"):
            results = [
                one for e in inner if isinstance(e, ToolCallExecutionEvent) for one in e.content
            ]
            asked = [one for e in inner if isinstance(e, ToolCallRequestEvent) for one in e.content]
            summary = ToolCallSummaryMessage(
                content=words, source=event.agent, tool_calls=asked, results=results
            )
            return Spoken(event.agent, summary, inner)
        text = TextMessage(content=words, source=event.agent, models_usage=usage)
        return Spoken(event.agent, text, inner)

    def _inner(self, agent: str, calls: Sequence[Event]) -> list[BaseAgentEvent]:
        """Return calls of tools in the groups in which a model asked for them."""
        groups: list[list[Event]] = []
        for call in calls:
            if not groups or call.get("turns"):
                groups.append([])
            groups[-1].append(call)
        found: list[BaseAgentEvent] = []
        for group in groups:
            asked = [self._call(one) for one in group]
            gave = [self._result(one) for one in group]
            usage = self._usage(group[0])
            found.append(ToolCallRequestEvent(content=asked, source=agent, models_usage=usage))
            found.append(ToolCallExecutionEvent(content=gave, source=agent))
        return found

    def _call(self, event: Event) -> FunctionCall:
        given = self._value(event)
        words = given if isinstance(given, str) else json.dumps(given)
        return FunctionCall(id=_call_id(event), name=str(event["tool"]), arguments=words)

    def _result(self, event: Event) -> FunctionExecutionResult:
        closed = self._results[event.id.removesuffix(".open") + ".close"]
        is_error = closed.get("status") == "error"
        words = _text(self._value(closed))
        return FunctionExecutionResult(
            content=words, name=str(event["tool"]), call_id=_call_id(event), is_error=is_error
        )

    def _usage(self, event: Event) -> RequestUsage | None:
        """Return what the calls of models cost that an event came of: a limit may count it."""
        turns = [self._asked[one] for one in event.get("turns", ()) if one in self._asked]
        if not turns:
            return None
        return RequestUsage(
            prompt_tokens=sum(turn.input_tokens or 0 for turn in turns),
            completion_tokens=sum(turn.output_tokens or 0 for turn in turns),
        )

    def _value(self, event: Event) -> Any:
        ref = event.get("content_ref")
        try:
            body: Mapping[str, Any] = self._store.get(str(ref)).body
        except ContentError as error:
            msg = f"what {event.agent} said must be in the store: {error}"
            raise ConfigError(msg) from error
        if body.get("flags"):
            msg = (
                f"what {event.agent} said must be in the store as it was, it is "
                f"{', '.join(body['flags'])}; give Recorded(team=..., messages=result.messages)"
            )
            raise ConfigError(msg)
        return body["value"]


def _call_id(event: Event) -> str:
    return str(event.get("tool_call_id", event.id))


def _text(value: Any) -> str:
    is_many: bool = value.__class__ is list
    if is_many:
        return "\n".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)
