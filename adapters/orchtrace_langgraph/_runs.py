"""A run of a graph: from the loop's entry to its exit, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from orchtrace_langgraph import _pauses, _tasks
from orchtrace_langgraph._causes import (
    END,
    PULL,
    Way,
    Write,
    Writer,
    Writers,
    goal_of,
    in_order,
    triggering,
)
from orchtrace_langgraph._channels import Channels
from orchtrace_langgraph._decisions import Decision
from orchtrace_langgraph._endings import edges_of, marks_of, outcome
from orchtrace_langgraph._graphs import BRANCH, Graph
from orchtrace_langgraph._handoffs import bring
from orchtrace_langgraph._open_turns import give_up
from orchtrace_langgraph._state import News, State
from orchtrace_langgraph._tasks import Task
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Flow, Mark
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans import Activation, Run, Value

_MOST_LEAVES: Final = 1_000
UNKNOWN: Final = "unknown"
"""Stands for a goal that is no node."""

_BREAKPOINTS: Final = frozenset(("interrupt_before", "interrupt_after"))


class GraphRun:
    """One run of a graph: a run of its own, or part of the run it was called in.

    Attributes:
        graph: What is known of the graph.
        activation: The orchestrator's: the root, one below the caller, or that of
            the node which the graph is.
        context: OTel context of what the orchestrator calls, made once for all tasks.
        nodes: The nodes of the graph, by name, as LangGraph has them.
        tasks: The tasks of the step, by LangGraph's id.
        turns: LLM calls that were open when their task ended, by LangChain's id.
        is_exact: Whether this version of LangGraph tells who wrote what. Where it does
            not, a task is taken to follow from all tasks of the step before.
        is_followed: Whether the hooks are in. A run that ends when they are not is one of
            which the rest was not seen.
    """

    is_exact: ClassVar[bool] = True
    is_followed: ClassVar[bool] = True

    __slots__ = (
        "_begun",
        "_carried",
        "_ends",
        "_flow",
        "_has_handoffs",
        "_instances",
        "_is_own",
        "_leaves",
        "_outer",
        "_passing",
        "_run",
        "_start",
        "_state",
        "_task_id",
        "_waiting",
        "_writers",
        "activation",
        "context",
        "graph",
        "nodes",
        "tasks",
        "turns",
    )

    def __init__(  # noqa: PLR0913 - every part is known at the start
        self,
        graph: Graph,
        activation: Activation,
        *,
        run: Run | None = None,
        flow: Flow | None = None,
        is_own: bool = True,
        outer: Task | None = None,
        task_id: str | None = None,
    ) -> None:
        self.graph = graph
        self.activation = activation
        self.context = activation.context
        self.tasks: dict[str, Task] = {}
        self.turns: set[UUID] = set()
        self._run = run
        self._flow = flow
        self._is_own = is_own
        self._outer = outer
        if outer is not None:
            outer.inside = outer.inside or set()
            outer.inside.add(self)
        self._instances: dict[str, str] = {}
        self._leaves: deque[Edge] = deque(maxlen=_MOST_LEAVES)
        self._ends: list[Writer] | None = None
        self._waiting: list[int] = []
        self._writers: Writers | None = None
        self._state: State | None = None
        self._begun = activation.opened
        self._start: _pauses.Start | None = None
        self._passing: _pauses.Left | None = None
        self._carried: object = None
        self._task_id = task_id
        self._has_handoffs = False
        self.nodes: Mapping[str, Any] = {}

    def starts(self, loop: Any) -> None:
        """Note how the loop is told to start, before it reads its checkpoint."""
        self.nodes = loop.nodes
        self._start = _pauses.start_of(loop)

    @guarded
    def plan(self, loop: Any) -> None:
        """Find the causes of the tasks that are about to run."""
        writers, state = self._writers, self._state
        if writers is None or state is None:
            known = self._channels(loop.channels)
            writers = self._writers = Writers(known.gathering, loop.channels)
            state = self._state = State(known.keeping, known.passing)
        state.step += 1
        if self._start is not None:
            self._passing = self._passing or self._left()  # one for all checkpoints
            _pauses.passed(loop, self._passing)
        before = self.tasks.values()
        self.tasks = {}
        self._ends = None
        self._forget()
        nodes = self.nodes
        for host in loop.tasks.values():
            task = self._add(host, nodes)
            if task.known.is_hidden:
                continue
            kind, place = host.path[:2]
            if not self.is_exact:
                found = [Writer(one, None) for one in before if one.caller is None]
            elif kind == PULL:
                found = writers.of(host, loop)
            else:
                found = writers.sent(place)
            self._prepare(task, found, state, is_send=kind != PULL)
            if self._has_handoffs:
                _hand_on(task, found)

    def _prepare(self, task: Task, found: list[Writer], state: State, *, is_send: bool) -> None:
        """Note who a task is, what it follows from, and what it knows of others."""
        task.edges = self._opening(found, is_send=is_send)
        if is_send:
            task.instance = self.activation.run.instance(task.known.agent)
            task.informed = [
                ("message", mark)
                for sender, _, _ in found
                if not sender.known.is_hidden
                for mark in sender.marks()
            ]
        else:
            self._use_again(task)
            news = state.read(task, task.known.reads)
            if news is not None:
                self._inform(task, news)

    def called(self, host: Any, caller_host: Any) -> None:
        """Take in a task that another task called, in the functional API."""
        task = self._add(host, {host.name: host.proc})
        task.caller = self.tasks.get(caller_host.id)
        place = task.place = _tasks.place()
        if place is None:
            task.edges = [("causal", self.activation.opened)]
            return
        task.instance, is_new = place.scope.activation.busy(task.known.agent)
        task.opens = "spawn" if is_new else "delegate"
        task.edges, task.knew = place.flow.take_beside("spawn" if is_new else "causal")

    def handles(self, host: Any, failed_host: Any) -> None:
        """Take in the task of an error handler: it follows from what failed."""
        task = self._add(host, self.nodes)
        failed = self.tasks.pop(failed_host.id, None)  # the handler is in its place
        marks = failed.marks() if failed is not None else (self.activation.opened,)
        task.edges = [("causal", mark) for mark in marks]
        self._use_again(task)
        news = None if self._state is None else self._state.read(task, task.known.reads)
        if news is not None:
            self._inform(task, news)

    def _inform(self, task: Task, news: News) -> None:
        task.informed = news.edges
        task.say(a.CHANNEL, news.channels)
        if not news.is_whole:
            self.activation.run.flag("informants_forgotten")

    @guarded
    def skipped(self, hosts: Iterable[Any]) -> None:
        """Take in tasks that need not run, since a cache has what they write."""
        for host in hosts:
            task = self.tasks.get(host.id)
            if task is None or task.activation is not None or task.known.is_hidden:
                continue
            _tasks.waiting.pop(id(host), None)
            place = task.place
            caller = self.activation if place is None else place.scope.activation
            facts: dict[str, Value] = {a.DECISION_NAME: "cache", a.CHOSEN: (plain_text(task.name),)}
            mark = spans.instant(caller, "decide", edges=task.edges, attributes=facts)
            task.ended = (mark,)
            if place is not None:
                place.flow.returned_beside(mark, task.knew)
                caller.release(task.known.agent, task.instance or "")

    def _add(self, host: Any, nodes: Mapping[str, Any]) -> Task:
        task = Task(self, host, self.graph.node(host.name, nodes))
        if not self.is_exact:
            task.say(a.CAUSALITY, "inferred")
        key = id(host)
        self.tasks[task.id] = task
        _tasks.waiting[key] = task
        self._waiting.append(key)
        return task

    def _use_again(self, task: Task) -> None:
        """A node that is entered again is the same instance's next activation."""
        task.instance = self._instances.get(task.name)
        if task.instance is None:
            task.instance = self.activation.run.instance(task.known.agent)
            self._instances[task.name] = task.instance
        else:
            task.opens = "delegate"

    def _opening(self, writers: list[Writer], *, is_send: bool) -> list[Edge]:
        if not writers:
            return [("causal", self._begun)]
        if len(writers) == 1 and not writers[0].is_handoff:
            task, decision, _ = writers[0]
            kind = "spawn" if is_send else "causal"
            marks = task.marks() if decision is None else (decision,)
            return [(kind, mark) for mark in marks]
        branches = {id(w.task): w.task for w in writers if not w.task.known.is_hidden}
        if len(branches) < 2:  # noqa: PLR2004 - it takes two to join
            return [("causal", mark) for mark in marks_of(writers)]
        merged = {mark.event_id: mark for task in branches.values() for mark in task.marks()}
        edges: list[Edge] = [("aggregate", mark) for mark in merged.values()]
        others = [w for w in writers if w.decision is not None or w.task.known.is_hidden]
        edges += [("causal", mark) for mark in marks_of(others) if mark.event_id not in merged]
        return [("causal", spans.instant(self.activation, "aggregate", edges=edges))]

    @guarded
    def follow(self, loop: Any) -> None:
        """Note who wrote what, before the loop applies the writes of the step."""
        writers, state = self._writers, self._state
        if writers is None or state is None:
            return
        hosts = loop.tasks.values()
        if len(hosts) > 1:
            hosts = in_order(hosts)
        writers.begin_step(hosts, loop.channels)
        ends = self._ends = []
        triggers = loop.trigger_to_nodes
        for host in hosts:
            task = self.tasks.get(host.id)
            if task is not None and task.caller is None:
                if task.ended is not None:
                    state.wrote(task, task.ended, host.writes)
                ends += self._wrote(task, host, triggers, writers)

    def _wrote(self, task: Task, host: Any, triggers: Any, writers: Writers) -> list[Writer]:
        """Note what one task wrote; return as whom, where another task can follow from it."""
        decided: list[Edge] = []
        ways = self._ways(task, decided) if task.decisions or task.handoffs else {}
        plain = Writer(task, None)
        writes = triggering(host.writes, triggers)
        if not writes:
            self._leaves.extend(decided or edges_of(plain))
            return []
        drawn = task.known.drawn
        found: list[Writer] = []
        for write in writes:
            way, channel, value = write
            if channel not in drawn and way not in ways and goal_of(write) is not None:
                self._command(task, writes, ways)
            writer = ways.get(way, plain)
            writers.add(channel, value, writer)
            if not writer.is_handoff:
                found.append(writer)
        return found

    def _ways(self, task: Task, decided: list[Edge]) -> dict[Way, Writer]:
        """Record what a task decided; return as whom it wrote what it leads on by."""
        ways: dict[Way, Writer] = {}
        for router, decision in task.decisions.items() if task.decisions else ():
            mark = self._decide(task, decision, is_command=router is None)
            decided.append(("causal", mark))
            writer = Writer(task, mark)
            for node in decision.chosen:
                ways[f"{BRANCH}{node}"] = writer
            for packet in decision.sends:
                ways[packet] = writer
        if task.handoffs is not None and task.handoffs.made:
            self._has_handoffs = True
            for goal, mark in task.handoffs.made.items():
                way = f"{BRANCH}{goal}" if isinstance(goal, str) else goal
                ways[way] = Writer(task, mark, is_handoff=True)
        return ways

    def _command(self, task: Task, writes: list[Write], ways: dict[Way, Writer]) -> None:
        """Record where a task went by a `Command` that it did not return, or by a Send."""
        drawn = task.known.drawn
        unsaid = [write for write in writes if write[1] not in drawn and write[0] not in ways]
        gone = {write[0]: node for write in unsaid if (node := goal_of(write)) is not None}
        chosen = tuple(dict.fromkeys(map(self._named, gone.values())))
        mark = self._decide(task, Decision("goto", chosen, frozenset(), None), is_command=True)
        ways.update(dict.fromkeys(gone, Writer(task, mark)))

    def _named(self, goal: str) -> str:
        """The name of the node that a channel is named after."""
        if goal in self.nodes:
            return goal
        return next((name for name in self.nodes if f"{name}" == goal), goal)

    def told(self, goal: str) -> str:
        """Return a goal that is a node's name; any other text may be what a model wrote."""
        name = plain_text(goal)
        if name == END or name in self.nodes:
            return name
        return name if any(plain_text(one) == name for one in self.nodes) else UNKNOWN

    def _decide(self, task: Task, decision: Decision, *, is_command: bool) -> Mark:
        edges: list[Edge] = [("causal", mark) for mark in task.marks()]
        if is_command and task.author is not None:
            edges += [("causal", mark) for mark in task.author.marks()]
        chosen = dict.fromkeys(map(self.told, decision.chosen))
        facts: dict[str, Value] = {a.CHOSEN: tuple(chosen)}
        if decision.name is not None:
            facts[a.DECISION_NAME] = decision.name
        if decision.candidates is not None:
            facts[a.CANDIDATES] = tuple(map(plain_text, decision.candidates))
        return spans.instant(self.activation, "decide", edges=edges, attributes=facts)

    @guarded
    def end(self, loop: Any, error: BaseException | None) -> None:
        """Close what the run opened; every way out of the loop comes through here."""
        if error is not None:
            self._leave_tasks(error)
        self._end_turns()
        status, reason, detail, error = outcome(loop, error)
        edges = self._final()
        if status == "paused":
            edges = self._pause(detail, edges)
        if self._run is not None:
            self._run.close(
                stop_reason=reason, stop_detail=detail, status=status, error=error, edges=edges
            )
        elif self._is_own and not self.activation.is_closed:
            self.activation.close(status=status, error=error, edges=edges)
            if self._flow is not None:
                self._flow.returned(self.activation.closed)
        else:
            for kind, mark in edges:
                self.activation.flow.returned(mark, kind)
        if self._start is not None:
            _pauses.ended(loop, self._left(is_paused=status == "paused"))
        self._let_go(is_over=loop is not None)

    def _leave_tasks(self, error: BaseException) -> None:
        """Take from the tasks who handed over, and end those that still run."""
        bring(error, self.tasks.values(), self._outer)
        _tasks.left_running(self.tasks.values())

    @guarded
    def leave_out(self) -> None:
        """Say that what came last is not in the trace."""
        self.activation.run.flag("given_up")

    @guarded
    def entered(self, loop: Any) -> None:
        """Take in where the loop goes on from, once it has read its checkpoint."""
        if self._start is None:
            return
        carried = self._carried or loop.checkpoint_metadata.get(_pauses.KEY)
        gone_on = _pauses.go_on(loop, self._start, carried, self.activation)
        if gone_on is not None:
            self._begun = gone_on.mark or self._begun
            self._task_id = gone_on.task_id or self._task_id

    @guarded
    def carry(self, loop: Any, metadata: dict[str, Any]) -> None:
        """Put our link into the metadata of a checkpoint that is about to be saved."""
        before = loop.checkpoint_metadata
        if self._start is None or metadata is before:
            return
        self._carried = self._carried or before.get(_pauses.KEY)
        metadata[_pauses.KEY] = self._left().link

    def _left(self, *, is_paused: bool = False) -> _pauses.Left:
        """Return what a later run, which starts from a checkpoint of this one, is linked to."""
        run = self.activation.run
        event = self.activation.opened.event_id
        if self._run is not None:
            event = run.stop_id or event
        elif self.activation.is_closed:
            event = self.activation.closed.event_id
        return _pauses.Left(f"{run.id}:{event}", self._task_id, is_paused)

    def _pause(self, detail: str | None, edges: list[Edge]) -> list[Edge]:
        """Record that the host asked to stop here, if so, and return the causes of the end."""
        if self._outer is not None:
            self._outer.has_asked = True
        if detail not in _BREAKPOINTS:
            return edges
        facts: dict[str, Value] = {a.DECISION_NAME: detail, a.TO: "user"}
        edges = edges or [("causal", self._begun)]
        mark = spans.instant(self.activation, "human_intervention", edges=edges, attributes=facts)
        return [("causal", mark)]

    def _final(self) -> list[Edge]:
        """Return the causes of the end: every task that led to no other."""
        found = {mark.event_id: (kind, mark) for kind, mark in self._leaves}
        ends = self._ends
        if ends is None:
            # The step was never finished: what came last is what ran in it, or led to it.
            ends = [Writer(task, None) for task in self.tasks.values() if task.caller is None]
        waiting = self._writers.waiting() if self._writers is not None else []
        for writer in (*ends, *waiting):
            for kind, mark in edges_of(writer):
                found.setdefault(mark.event_id, (kind, mark))
        return list(found.values())

    def _channels(self, hosts: Mapping[str, Any]) -> Channels:
        """Return what the graph's channels do; a graph may have others than it had."""
        known = self.graph.channels
        if known is None or hosts.keys() != known.names:
            known = self.graph.channels = Channels(hosts)
        return known

    def _end_turns(self) -> None:
        """Leave LLM calls that are still open to the task around; without one, give them up."""
        if self._outer is None:
            give_up(self.turns)
        elif self.turns:
            self._outer.turns = self.turns | (self._outer.turns or set())

    def _let_go(self, *, is_over: bool) -> None:
        """Hold on to nothing of a run that is over; one that nobody waits for may go on."""
        if not is_over:
            return
        self.tasks = {}
        self._writers = self._state = self._ends = None
        if self._outer is not None and self._outer.inside is not None:
            self._outer.inside.discard(self)
        self._outer = None  # it may know who in this graph handed over: no circle
        self._forget()

    def _forget(self) -> None:
        """Wait no more for those of the step before that never ran."""
        for key in _tasks.waiting.keys() & self._waiting:
            # The host's task may be gone, and its identity another's by now.
            task = _tasks.waiting.get(key)
            if task is not None and task.run is self:
                del _tasks.waiting[key]
        self._waiting = []


def _hand_on(task: Task, found: list[Writer]) -> None:
    """Note that another agent handed over to a task, if one did."""
    for writer in found:
        if writer.is_handoff and writer.task.activation is not None:
            task.opens, task.by = "begin", writer.task.activation.agent
            return
