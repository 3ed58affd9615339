"""What a stretch of an agent's work has asked its models, and which events came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context, create_key, set_value

from orchtrace_otel.flow import Edge, Flow
from orchtrace_otel.spans import Activation, Interval, Run, Scope, scope_of

if TYPE_CHECKING:
    from orchtrace_autogen._calls import Call
    from orchtrace_autogen._team import TeamRun

_WORK: Final = create_key("orchtrace-autogen-work")
_TOOL: Final = create_key("orchtrace-autogen-tool")


class Asked:
    """One LLM call of the work.

    Attributes:
        turn: Span id of the call.
        seen: Results that the model saw for the first time; they enter what it produces.
        is_used: Whether an event came of it.
    """

    __slots__ = ("is_used", "seen", "turn")

    def __init__(self, turn: str, seen: list[Edge]) -> None:
        self.turn = turn
        self.seen = seen
        self.is_used = False


class Work:
    """One activation, with its LLM calls.

    Attributes:
        activation: Whose work it is.
        team: The team that it is part of, if any.
        calls: The LLM call that asked for each tool call, by the id of the tool call.
        closing: Causes that enter the activation's close.
        open: The LLM calls that have not ended.
        inside: The tool calls, and agents and teams behind them, that have not ended, in order.
    """

    __slots__ = ("_asked", "activation", "calls", "closing", "inside", "open", "team")

    def __init__(self, activation: Activation, team: TeamRun | None = None) -> None:
        self.activation = activation
        self.team = team
        self.calls: dict[str, Asked] = {}
        self.closing: list[Edge] = []
        self.open: set[Interval] = set()
        self.inside: dict[Call, None] = {}
        self._asked: list[Asked] = []

    @property
    def context(self) -> Context:
        """The OTel context under which the work is done."""
        return set_value(_WORK, self, self.activation.context)

    def ask(self, turn: str) -> Asked:
        """Note an LLM call; what came back to the agent so far is what the model sees."""
        asked = Asked(turn, self.activation.flow.drain())
        self._asked.append(asked)
        return asked

    def caused(self, call_id: str | None, flow: Flow) -> tuple[list[Edge], list[str]]:
        """Return what caused a tool call in `flow`, and the LLM call that asked for it.

        Of calls whose server gave them an empty id it was the latest that asked for such.
        """
        asked = None if call_id is None else self.calls.get(call_id)
        if asked is None:
            return flow.take(), []
        asked.is_used = True
        return [("causal", flow.last), *asked.seen], [asked.turn]

    def produce(self) -> tuple[list[Edge], list[str]]:
        """Return what caused an event that the work produced, and the LLM calls it came of."""
        edges = self.activation.flow.take()
        turns: list[str] = []
        for asked in self._asked:
            if not asked.is_used:
                asked.is_used = True
                edges += asked.seen
                turns.append(asked.turn)
        self._asked.clear()
        return edges, turns

    def leave(self) -> None:
        """End the tool calls that are open, the innermost first: nobody waits for them any more.

        AutoGen runs them in tasks of their own, which go on where the agent is cancelled or left.
        """
        for call in reversed([*self.inside]):
            call.give_up()

    def rest(self) -> list[Edge]:
        """End the LLM calls that were left; return the causes of the close that entered no event.

        Who stops reading an agent's stream leaves the model's stream behind it open, until
        the event loop gets around to it, which is after the run has stopped.
        """
        for turn in list(self.open):
            turn.close(status="cancelled")
        self.open.clear()
        left = [edge for asked in self._asked if not asked.is_used for edge in asked.seen]
        return left + self.closing


class ToolCall:
    """A tool call that is open.

    Attributes:
        scope: Its span.
        name: The tool's name.
        call_id: Its id; what runs inside under the same id is the same call.
        level: How far in it was entered: by an assistant, a workbench or the tool itself.
        is_memory: Whether it is a use of a memory.
    """

    __slots__ = ("call_id", "is_memory", "level", "name", "scope")

    def __init__(
        self, scope: Scope, name: str, call_id: str | None, *, level: int, is_memory: bool
    ) -> None:
        self.scope = scope
        self.name = name
        self.call_id = call_id
        self.level = level
        self.is_memory = is_memory

    @property
    def context(self) -> Context:
        """The OTel context under which the tool runs."""
        return set_value(_TOOL, self, self.scope.context)


def recording(context: Context) -> Scope | None:
    """Return what code runs in under `context`, where what it does is recorded."""
    scope = scope_of(context)
    return scope if scope is not None and scope.run.is_recording else None


def work_of(scope: Scope, context: Context) -> Work | None:
    """Return the work that an activation or a tool call is part of, if it is one of ours."""
    work = context.get(_WORK)
    return work if isinstance(work, Work) and work.activation is scope.activation else None


def around(run: Run, context: Context) -> Work | None:
    """Return the innermost work of a run that `context` is inside of, in whatever it calls."""
    work = context.get(_WORK)
    return work if isinstance(work, Work) and work.activation.run is run else None


def team_of(run: Run, context: Context) -> TeamRun | None:
    """Return the innermost team of a run that `context` is inside of."""
    work = around(run, context)
    return None if work is None else work.team


def tool_of(scope: Scope, context: Context) -> ToolCall | None:
    """Return the tool call that code runs in, if it is one of ours."""
    tool = context.get(_TOOL)
    return tool if isinstance(tool, ToolCall) and tool.scope is scope else None
