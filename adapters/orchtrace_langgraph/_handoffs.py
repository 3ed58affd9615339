"""Hand-offs: the agent that gives its work to another delegates, not the graph around both.

`Command(graph=PARENT)` leaves a graph as an exception, which the task around it turns
into writes. Who returned the command is known where the exception leaves the inner run;
what came of it, once the task has written. Agents of langgraph-supervisor hand back by
a message that says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from orchtrace_langgraph._causes import END, SENDS
from orchtrace_langgraph._decisions import Decision, went
from orchtrace_langgraph._graphs import BRANCH
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.spans import Value

if TYPE_CHECKING:
    from orchtrace_langgraph._tasks import Task

_IS_BACK: Final = "__is_handoff_back"


class Transfer(NamedTuple):
    """A tool call that answered with a command: where to, and the turn that asked for it."""

    goals: list[Any]
    call_id: str | None
    turn: str | None
    closed: Mark


def each(value: Any) -> list[Any]:
    """Return the goals of a command, of which there may be one, several or none."""
    if isinstance(value, (list, tuple)):
        return list(cast("Iterable[Any]", value))
    return [value]


def bring(error: BaseException, tasks: Iterable[Task], outer: Task | None) -> None:
    """Tell the task around a graph who in it handed over, and how."""
    if outer is None or type(error).__name__ != "ParentCommand":
        return
    for task in tasks:
        if task.handoffs is not None and task.handoffs.left == id(error):
            handoffs = outer.hand_over()
            handoffs.author = task.author or task
            handoffs.command = error.args[0]


@guarded
def gave(task: Task, result: Any) -> None:
    """Note where a task goes by what it gave: a command, or that a worker hands back."""
    went(task, result)
    if task.known.is_worker and isinstance(result, dict):
        messages = cast("dict[str, Any]", result).get("messages")
        said = getattr(messages[-1], "response_metadata", None) if messages else None
        if said and said.get(_IS_BACK):
            task.hand_over().is_back = True


@guarded
def hand_over(task: Task, host: Any) -> None:
    """Record the hand-offs of a task that has written and is about to close."""
    handoffs = task.hand_over()
    if handoffs.author is not None:
        _by_command(task, handoffs.author, host)
    elif handoffs.is_back:
        found = [c[len(BRANCH) :] for c, _ in host.writes if c.startswith(BRANCH)]
        _record(task, {node: (node, None) for node in found}, ())


def _by_command(task: Task, author: Task, host: Any) -> None:
    handoffs = task.hand_over()
    goals = each(handoffs.command.goto)
    handoffs.command = None
    written = {channel for channel, _ in host.writes}
    packets = {id(value) for channel, value in host.writes if channel == SENDS}
    found: dict[str | int, tuple[str, Transfer | None]] = {}
    for goal in goals:
        if isinstance(goal, str):
            if f"{BRANCH}{goal}" in written:
                found[goal] = (goal, _transfer(author, goal))
        elif id(goal) in packets:
            found[id(goal)] = (goal.node, _transfer(author, goal))
    if END in goals:
        ends = Decision("goto", (END,), frozenset(), None)
        task.decisions = {**(task.decisions or {}), None: ends}  # routers of it have chosen, too
    _record(task, found, author.marks())
    if author.handoffs is not None:
        author.handoffs.transfers = []


def _transfer(author: Task, goal: Any) -> Transfer | None:
    """Return the tool call of the author that asked to go there, if one did."""
    for transfer in author.handoffs.transfers if author.handoffs is not None else ():
        if any(one is goal or (isinstance(goal, str) and one == goal) for one in transfer.goals):
            return transfer
    return None


def _record(
    task: Task, found: dict[Any, tuple[str, Transfer | None]], marks: Iterable[Mark]
) -> None:
    activation = task.activation
    if activation is None or not found:
        return
    flow = activation.flow
    causes = {mark.event_id: ("causal", mark) for mark in marks}
    edges: list[Edge] = list(causes.values())
    edges += [edge for edge in flow.drain() if edge[1].event_id not in causes]
    if not edges:
        edges = [("causal", flow.last)]
    made = task.hand_over().made = {}
    for key, (node, transfer) in found.items():
        facts: dict[str, Value] = {}
        tool: list[Edge] = []
        if transfer is not None:
            tool.append(("tool_dependency", transfer.closed))
            if transfer.call_id is not None:
                facts[a.TOOL_CALL_ID] = transfer.call_id
            if transfer.turn is not None:
                facts[a.TURNS] = (transfer.turn,)
        mark = spans.instant(
            activation, "delegate", to=task.run.told(node), edges=[*edges, *tool], attributes=facts
        )
        made[key] = mark
        flow.returned(mark, "causal")
