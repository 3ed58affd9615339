"""Writing the spans of a played run, by a clock that the play moves itself.

The builder makes the trace of them, as it does of the spans of a real run, so that the
traces of the world are as those of a host are, key by key.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import SpanRecord, build
from orchtrace_otel.testing.recorder import EPOCH
from orchtrace_otel.testing.world._chance import chance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.model import Reward, Trace

SECOND: Final = 1_000_000_000
_BLINK: Final = 1_000_000
"""What passes between two things one agent does, one millisecond."""

Cause = tuple[str, str]
"""Type of an edge, and the id of the event that it starts from."""


@dataclass(slots=True, eq=False)
class Act:
    """An activation that is being played.

    Attributes:
        span: Its span id.
        agent: Whose it is.
        parent: The activation around it; None for the root.
        now: Its own time, nanoseconds since the epoch.
        anchor: Id of the last event of its own, which leads to what it does next.
        returned: Edges that came back to it and that its next event carries.
        waits: The last to come back of each group that it waited for.
    """

    span: str
    agent: str
    parent: Act | None
    start: int
    now: int
    anchor: str
    attributes: dict[str, Any]
    returned: list[Cause] = field(default_factory=list[Cause])
    waits: list[Act] = field(default_factory=list["Act"])

    @property
    def opened(self) -> str:
        """Id of the event that opened it."""
        return self.span + ".open"

    @property
    def closed(self) -> str:
        """Id of the event that closes it."""
        return self.span + ".close"


class Stage:
    """One run being played; call `finish` once."""

    def __init__(self, name: str, task_id: str, *identity: object, system: str = "python") -> None:
        self._ids = itertools.count(1)
        self._lives: dict[str, str] = {}
        self._records: list[SpanRecord] = []
        trace_id = chance("trace", *identity).getrandbits(128)
        span = self._new_id()
        self.run_id: Final = f"{trace_id:032x}-{span}"
        found: dict[str, Any] = {
            a.OPERATION: a.INVOKE_WORKFLOW,
            a.OPENS: "begin",
            a.AGENT_NAME: name,
            a.INSTANCE: f"{name}#1",
            a.SYSTEM: system,
            a.TASK_ID: task_id,
        }
        self.root: Final = Act(span, name, None, EPOCH, EPOCH + _BLINK, span + ".open", found)
        self.finished: list[Act] = []
        self.graded: dict[str, float] = {}

    def open(  # noqa: PLR0913 - what an opening says
        self,
        parent: Act,
        agent: str,
        *,
        role: str | None = None,
        causes: Sequence[Cause] | None = None,
        by: str | None = None,
        reads: Sequence[str] = (),
        tool: str | None = None,
    ) -> Act:
        """Open an activation inside `parent`, at its time; `causes` unless its flow has them."""
        is_new = agent not in self._lives
        opens = "spawn" if is_new else "delegate"
        instance = self._lives.setdefault(agent, f"{agent}#1")
        if causes is None:
            causes = [("spawn" if is_new else "causal", tool or parent.anchor), *parent.returned]
        found: dict[str, Any] = {
            a.OPERATION: a.INVOKE_AGENT,
            a.OPENS: opens,
            a.AGENT_NAME: agent,
            a.INSTANCE: instance,
            a.EDGES: _written([*causes, *(("message", letter) for letter in reads)]),
        }
        if role is not None:
            found[a.ROLE] = role
        if by is not None:
            found[a.BY] = by
        span = self._new_id()
        return Act(span, agent, parent, parent.now, parent.now + _BLINK, span + ".open", found)

    def work(self, act: Act, seconds: float, tokens: int) -> str:
        """Let an agent ask its model once; return the span id of the turn."""
        begin, end = act.now, act.now + round(seconds * SECOND)
        act.now = end + _BLINK
        read = tokens * 3 // 4
        span = self._new_id()
        found = {
            a.OPERATION: a.CHAT,
            a.VERB: a.TURN,
            a.AGENT_NAME: act.agent,
            a.PROVIDER: "world",
            a.REQUEST_MODEL: "world-1",
            a.INPUT_TOKENS: read,
            a.OUTPUT_TOKENS: tokens - read,
        }
        self._records.append(SpanRecord(span, act.span, begin, end, found))
        return span

    def use_tool(self, act: Act, name: str, seconds: float, *, is_error: bool = False) -> None:
        """Let an agent call a tool."""
        call = self.start_tool(act, name)
        act.now += round(seconds * SECOND)
        self.end_tool(act, call, is_error=is_error)

    def start_tool(self, act: Act, name: str) -> SpanRecord:
        """Begin a call of a tool, which `end_tool` ends."""
        found: dict[str, Any] = {
            a.OPERATION: a.EXECUTE_TOOL,
            a.AGENT_NAME: act.agent,
            a.TOOL_NAME: name,
            a.VERB: a.TOOL_CALL,
            a.EDGES: _written([("causal", act.anchor), *act.returned]),
        }
        act.returned = []
        call = SpanRecord(self._new_id(), act.span, act.now, act.now, found)
        act.now += _BLINK
        return call

    def end_tool(self, act: Act, call: SpanRecord, *, is_error: bool = False) -> None:
        """End a call of a tool; what ran inside of it came back to it."""
        call.end = act.now
        call.attributes = {
            **call.attributes,
            a.EDGES_CLOSE: _written(act.returned),
            a.STATUS: "error" if is_error else "ok",
        }
        self._records.append(call)
        act.now += _BLINK
        act.returned = [("tool_dependency", call.span_id + ".close")]

    def tell(self, act: Act, verb: str, seconds: float = 0.0, **keys: Any) -> str:
        """Let an agent do something in one event; return its id."""
        causes = [("causal", act.anchor), *act.returned, *keys.pop("causes", ())]
        begin, end = act.now, act.now + round(seconds * SECOND)
        span = self._new_id()
        found = {a.VERB: verb, a.AGENT_NAME: act.agent, a.EDGES: _written(causes), **keys}
        self._records.append(SpanRecord(span, act.span, begin, end, found))
        act.now, act.anchor, act.returned = end + _BLINK, span, []
        return span

    def merge(self, act: Act, sources: Sequence[Act], seconds: float, tokens: int) -> str:
        """Let an agent merge what others brought, with one call of its model."""
        merged = {source.closed for source in sources}
        act.returned = [cause for cause in act.returned if cause[1] not in merged]
        begin = act.now
        turn = self.work(act, seconds, tokens)
        act.now = begin
        causes = [("aggregate", source.closed) for source in sources]
        return self.tell(act, "aggregate", seconds, causes=causes, **{a.TURNS: (turn,)})

    def close(self, act: Act, *, status: str = "ok") -> None:
        """Close an activation; what came back to it leads to its end."""
        own = [] if act.anchor == act.opened else [("causal", act.anchor)]
        act.attributes[a.EDGES_CLOSE] = _written([*own, *act.returned])
        if status != "ok":
            act.attributes[a.STATUS] = status
        above = None if act.parent is None else act.parent.span
        self._records.append(SpanRecord(act.span, above, act.start, act.now, act.attributes))
        self.finished.append(act)

    def wait(self, parent: Act, children: Sequence[Act], *, is_told: bool = True) -> None:
        """Let `parent` go on once all `children` are back; `is_told` unless only by their edges."""
        last = max(children, key=lambda child: (child.now, child.span))
        parent.now = max(parent.now, last.now) + _BLINK
        parent.waits.append(last)
        parent.returned = (
            [("return", child.closed) for child in children] if is_told else parent.returned
        )

    def stop(self, reason: str) -> None:
        """Record the stop, and close the root."""
        self.tell(self.root, "stop", 0.0, **{a.STOP_REASON: reason})
        self.root.now -= _BLINK
        self.close(self.root)

    def finish(self, rewards: Sequence[Reward] = ()) -> Trace:
        """Build the trace; the run must have stopped."""
        if rewards:
            written = [reward.to_dict() for reward in rewards]
            self.root.attributes[a.REWARD_RECORDS] = json.dumps(written)
        return build(self.run_id, self._records)

    def _new_id(self) -> str:
        return f"{next(self._ids):016x}"


def features_of(seen: Mapping[str, float]) -> tuple[str, ...]:
    """Return features as a span's attribute holds them."""
    return tuple(f"{name}={value!r}" for name, value in seen.items())


def slowest(act: Act) -> list[str]:
    """Return the span ids along which an activation waited, itself first: the critical path."""
    return [act.span, *(span for child in act.waits for span in slowest(child))]


def _written(causes: Sequence[Cause]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{kind}:{event}" for kind, event in causes))
