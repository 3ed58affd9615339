"""A run of a graph: from the loop's entry to its exit, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from orchtrace_langgraph import _pauses, _state, _tasks
from orchtrace_langgraph._causes import (
    SENDS,
    Write,
    Writer,
    Writers,
    gathering,
    path_key,
    triggering,
)
from orchtrace_langgraph._decisions import Decision
from orchtrace_langgraph._endings import edges_of, marks_of, outcome
from orchtrace_langgraph._graphs import Graph
from orchtrace_langgraph._handoffs import bring
from orchtrace_langgraph._state import State
from orchtrace_langgraph._tasks import Task
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Flow, Mark
from orchtrace_otel.spans import Activation, Run, Value

_HIDDEN: Final = "langsmith:hidden"
_MOST_LEAVES: Final = 1_000

_BREAKPOINTS: Final = frozenset(("interrupt_before", "interrupt_after"))


class GraphRun:
    """One run of a graph: a run of its own, or part of the run it was called in.

    Attributes:
        graph: What is known of the graph.
        activation: The orchestrator's: the root, one below the caller, or that of
            the node which the graph is.
        context: OTel context of what the orchestrator calls, made once for all tasks.
        tasks: The tasks of the step, by LangGraph's id.
        is_exact: Whether this version of LangGraph tells who wrote what. Where it does
            not, a task is taken to follow from all tasks of the step before.
    """

    is_exact: ClassVar[bool] = True

    __slots__ = (
        "_begun",
        "_carried",
        "_ends",
        "_flow",
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
        "tasks",
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
        self._run = run
        self._flow = flow
        self._is_own = is_own
        self._outer = outer
        self._instances: dict[str, str] = {}
        self._leaves: deque[Edge] = deque(maxlen=_MOST_LEAVES)
        self._ends: list[Edge] | None = None
        self._waiting: list[int] = []
        self._writers: Writers | None = None
        self._state: State | None = None
        self._begun = activation.opened
        self._start: _pauses.Start | None = None
        self._passing: _pauses.Left | None = None
        self._carried: object = None
        self._task_id = task_id

    def starts(self, loop: Any) -> None:
        """Note how the loop is told to start, before it reads its checkpoint."""
        self._start = _pauses.start_of(loop)

    @guarded
    def plan(self, loop: Any) -> None:
        """Find the causes of the tasks that are about to run."""
        writers, state = self._writers, self._state
        if writers is None or state is None:
            writers = self._writers = Writers(self._gathering(loop))
            state = self._state = State(self._keeping(loop))
        state.begin_step()
        if self._start is not None:
            self._passing = self._passing or self._left()  # one for all checkpoints
            _pauses.passed(loop, self._passing)
        before = [task for task in self.tasks.values() if task.caller is None]
        self.tasks = {}
        self._ends = None
        self._forget()
        for host in loop.tasks.values():
            task = self._add(loop, host)
            if task.is_hidden:
                continue
            if self.is_exact:
                found = writers.of(host, loop)
            else:
                found = [Writer(task, None) for task in before]
            is_send = host.path[0] != "__pregel_pull"
            task.edges = self._opening(found, is_send=is_send)
            if is_send:
                task.instance = self.activation.run.instance(self._agent(task))
                senders = (w.task for w in found if not w.task.is_hidden)
                task.informed = [("message", mark) for one in senders for mark in one.marks()]
            else:
                self._use_again(task)
                self._inform(task, state)
            handed = next((w.task for w in found if w.is_handoff), None)
            if handed is not None and handed.activation is not None:
                task.opens, task.by = "begin", handed.activation.agent

    def called(self, loop: Any, host: Any, caller_host: Any) -> None:
        """Take in a task that another task called, in the functional API."""
        task = self._add(loop, host)
        caller = self.tasks.get(caller_host.id)
        if caller is None or caller.activation is None:
            task.edges = [("causal", self.activation.opened)]
            return
        task.caller = caller
        instance, is_new = caller.activation.busy(task.name)
        task.instance = instance
        task.opens = "spawn" if is_new else "delegate"
        task.edges = caller.activation.flow.take("spawn" if is_new else "causal")

    def handles(self, loop: Any, host: Any, failed_host: Any) -> None:
        """Take in the task of an error handler: it follows from what failed."""
        task = self._add(loop, host)
        failed = self.tasks.get(failed_host.id)
        marks = failed.marks() if failed is not None else [self.activation.opened]
        task.edges = [("causal", mark) for mark in marks]
        self._use_again(task)
        if failed is not None:
            failed.has_failed = False
        if self._state is not None:
            self._inform(task, self._state)

    def _inform(self, task: Task, state: State) -> None:
        news = state.read(task, task.node)
        if news is None:
            return
        task.informed, task.channels = news.edges, news.channels
        if not news.is_whole:
            self.activation.run.flag("informants_forgotten")

    @guarded
    def skipped(self, hosts: Iterable[Any]) -> None:
        """Take in tasks that need not run, since a cache has what they write."""
        for host in hosts:
            task = self.tasks.get(host.id)
            if task is None or task.activation is not None or task.is_hidden:
                continue
            _tasks.waiting.pop(id(host), None)
            caller = task.caller.activation if task.caller is not None else None
            facts: dict[str, Value] = {a.DECISION_NAME: "cache", a.CHOSEN: (task.name,)}
            task.skipped = spans.instant(
                caller or self.activation, "decide", edges=task.edges, attributes=facts
            )
            if caller is not None:
                caller.flow.returned(task.skipped)
                caller.release(self._agent(task), task.instance or "")

    def _add(self, loop: Any, host: Any) -> Task:
        node = loop.nodes.get(host.name)
        tags: Any = getattr(node, "tags", None) or ()
        task = Task(self, host, node, is_hidden=_HIDDEN in tags)
        task.plan = self.graph.plan(host.name, node)
        task.is_worker = self.graph.is_worker(host.name, node)
        self.tasks[host.id] = task
        _tasks.waiting[id(host)] = task
        self._waiting.append(id(host))
        return task

    @staticmethod
    def _agent(task: Task) -> str:
        return task.name if task.plan is None else task.plan.name

    def _use_again(self, task: Task) -> None:
        """A node that is entered again is the same instance's next activation."""
        task.instance = self._instances.get(task.name)
        if task.instance is None:
            task.instance = self.activation.run.instance(self._agent(task))
            self._instances[task.name] = task.instance
        else:
            task.opens = "delegate"

    def _opening(self, writers: list[Writer], *, is_send: bool) -> list[Edge]:
        if not writers:
            return [("causal", self._begun)]
        if len(writers) == 1 and is_send and not writers[0].is_handoff:
            writer = writers[0]
            marks = writer.task.marks() if writer.decision is None else [writer.decision]
            return [("spawn", mark) for mark in marks]
        branches = {id(w.task): w.task for w in writers if not w.task.is_hidden}
        causes = marks_of(writers)
        if len(branches) < 2:  # noqa: PLR2004 - it takes two to join
            return [("causal", mark) for mark in causes]
        merged = {mark.event_id: mark for task in branches.values() for mark in task.marks()}
        edges: list[Edge] = [("aggregate", mark) for mark in merged.values()]
        edges += [("causal", mark) for mark in causes if mark.event_id not in merged]
        return [("causal", spans.instant(self.activation, "aggregate", edges=edges))]

    @guarded
    def follow(self, loop: Any) -> None:
        """Note who wrote what, before the loop applies the writes of the step."""
        writers = self._writers
        if writers is None:
            return
        hosts = list(loop.tasks.values())
        if len(hosts) > 1:
            # The order in which the loop applies their writes: it says which Send is
            # whose, and who came first at a barrier.
            hosts.sort(key=lambda host: path_key(host.path[:3]))
        writers.begin_step(hosts, loop.channels)
        self._ends = []
        for host in hosts:
            task = self.tasks.get(host.id)
            if task is not None and task.caller is None:
                if self._state is not None and not task.is_hidden and task.has_news:
                    self._state.wrote(task, host.writes)
                self._wrote(task, host, triggering(host, loop.trigger_to_nodes), writers)

    def _wrote(self, task: Task, host: Any, writes: list[Write], writers: Writers) -> None:
        """Note what one task wrote, and what its routers chose."""
        handed = task.handoffs or {}
        by_node: dict[str, Mark] = {}
        by_send: dict[int, Mark] = {}
        ended: list[Edge] = []
        for decision in task.decisions.values() if task.decisions else ():
            decided = self._decide(task, decision)
            by_node.update(dict.fromkeys(decision.chosen, decided))
            by_send.update(dict.fromkeys(decision.sends, decided))
            ended.append(("causal", decided))
        if not writes:
            self._leaves.extend(ended or edges_of(Writer(task, None)))
            return
        drawn = self.graph.drawn(host)
        gone: list[Write] = []
        found: list[tuple[Write, Mark | None, bool]] = []
        for write in writes:
            is_send = write.channel == SENDS
            delegated = handed.get(id(write.value) if is_send else write.chosen or "")
            if delegated is not None:
                writers.add(write, Writer(task, delegated, is_handoff=True))
                continue
            mark = by_send.get(id(write.value)) if is_send else by_node.get(write.chosen or "")
            is_gone = mark is None and write.chosen is not None and write.channel not in drawn
            if is_gone:
                gone.append(write)
            found.append((write, mark, is_gone))
        command = self._command(task, gone) if gone else None
        for write, mark, is_gone in found:
            writer = Writer(task, command if is_gone else mark)
            writers.add(write, writer)
            if self._ends is not None:
                self._ends += edges_of(writer)

    def _command(self, task: Task, gone: list[Write]) -> Mark:
        """Record where a task went by a `Command` that it did not return, or by a Send."""
        chosen = tuple(dict.fromkeys(write.chosen for write in gone if write.chosen))
        return self._decide(task, Decision("goto", chosen, frozenset(), None))

    def _decide(self, task: Task, decision: Decision) -> Mark:
        edges: list[Edge] = [("causal", mark) for mark in task.marks()]
        if task.author is not None:
            edges += [("causal", mark) for mark in task.author.marks()]
        facts: dict[str, Value] = {a.CHOSEN: decision.chosen}
        if decision.name is not None:
            facts[a.DECISION_NAME] = decision.name
        if decision.candidates is not None:
            facts[a.CANDIDATES] = decision.candidates
        return spans.instant(self.activation, "decide", edges=edges, attributes=facts)

    @guarded
    def end(self, loop: Any, error: BaseException | None) -> None:
        """Close what the run opened; every way out of the loop comes through here."""
        if error is not None:
            bring(error, self.tasks.values(), self._outer)
        status, reason, detail, error = outcome(loop, error)
        edges = self._final()
        if status == "paused":
            edges = self._pause(detail, edges)
        if self._run is not None:
            self._run.close(
                stop_reason=reason, stop_detail=detail, status=status, error=error, edges=edges
            )
        elif self._is_own:
            self.activation.close(status=status, error=error, edges=edges)
            if self._flow is not None:
                self._flow.returned(self.activation.closed)
        else:
            for kind, mark in edges:
                self.activation.flow.returned(mark, kind)
        if self._start is not None:
            _pauses.ended(loop, self._left(is_paused=status == "paused"))
        self.tasks = {}
        self._writers = self._state = None
        self._outer = None  # it may know who in this graph handed over: no circle
        self._forget()

    @guarded
    def entered(self, loop: Any) -> None:
        """Take in where the loop goes on from, once it has read its checkpoint."""
        if self._start is None:
            return
        carried = self._carried or loop.checkpoint_metadata.get(_pauses.KEY)
        mark = _pauses.go_on(loop, self._start, carried, self.activation)
        if mark is not None:
            self._begun = mark

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
            called = (task for task in self.tasks.values() if task.caller is None)
            ends = [edge for task in called for edge in edges_of(Writer(task, None))]
        waiting = self._writers.waiting() if self._writers is not None else []
        for kind, mark in (*ends, *(edge for writer in waiting for edge in edges_of(writer))):
            found.setdefault(mark.event_id, (kind, mark))
        return list(found.values())

    def _gathering(self, loop: Any) -> dict[str, bool]:
        if self.graph.gathering is None:
            self.graph.gathering = gathering(loop.channels)
        return self.graph.gathering

    def _keeping(self, loop: Any) -> dict[str, bool]:
        if self.graph.keeping is None:
            self.graph.keeping = _state.keeps_all(loop.channels)
        return self.graph.keeping

    def _forget(self) -> None:
        for key in self._waiting:
            # The host's task may be gone, and its identity another's by now.
            task = _tasks.waiting.get(key)
            if task is not None and task.run is self:
                del _tasks.waiting[key]
        self._waiting = []
