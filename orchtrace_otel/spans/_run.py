"""A run while it is open: its clock, its instances, its messages, its stop."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Status, StatusCode

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.content import gate
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans._activation import MOST_WAITING, Activation
from orchtrace_otel.spans._interval import end_span
from orchtrace_otel.spans._opening import open_point
from orchtrace_otel.spans._outcome import error_type
from orchtrace_otel.spans._tracing import Follower, Tracing, Value, Watcher, record_late

if TYPE_CHECKING:
    from orchtrace_otel.model import Reward, Trace
    from orchtrace_otel.spans._interval import Interval, Scope

_IDS: Final = RandomIdGenerator()


class Run:
    """One execution of a team, from a task to a stop.

    Attributes:
        id: `<OTel trace id>-<span id of the root>`.
        trace_id: The OTel trace id, 32 hexadecimal digits.
        name: Name of the team.
        is_remote: Whether its root lives in another process.
        is_recording: Whether the sampler lets it be recorded.
        is_closed: Whether it has stopped, or is about to.
        is_stopped: Whether its stop is told, which rewards may still be given at.
        content: What it has captured, where content is on; content/ alone knows more.
        rewards: What users gave so far.
        flags: What is known to be lost.
        inbox: Messages that nobody has read yet, by recipient.
        objects: Objects that are agents, by identity, and the instance each one is.
        caller: The call of a decorated function that began it and ends it, while it is open.
        stopping: Reason and detail that the host gave for the stop to come.
        stop_id: Id of the stop's event, once there is one; later runs link to it.
        followed: Who follows it, while somebody does.
        watcher: Who is told of each span as it begins and ends, such as an advisor.
        open_spans: How many of its spans are open, the root among them.
        where: What tells instances of this process from those of others.
        is_bare: Whether the host's sampler takes from spans what they begin with.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_instances",
        "_last",
        "_offset",
        "_root",
        "caller",
        "content",
        "flags",
        "followed",
        "id",
        "inbox",
        "is_bare",
        "is_closed",
        "is_recording",
        "is_remote",
        "is_stopped",
        "name",
        "objects",
        "open_spans",
        "rewards",
        "stop_id",
        "stopping",
        "trace_id",
        "tracing",
        "watcher",
        "where",
    )

    def __init__(self, tracing: Tracing, name: str) -> None:
        self.tracing = tracing
        self.name = name
        self.id = ""
        self.trace_id = ""
        self._root: Activation | weakref.ref[Activation]
        self.is_remote = False
        self.is_bare = False
        self.is_recording = True
        self.is_closed = False
        self.is_stopped = False
        self.content: object = None
        self.watcher: Watcher | None = None
        self.rewards: list[Reward] = []
        self.flags: set[str] = set()
        self.inbox: dict[str, list[Mark]] = {}
        self.objects: dict[int, tuple[weakref.ref[Any], str]] = {}
        self.caller: Scope | None = None
        self.stopping: tuple[str, str | None] | None = None
        self.stop_id = ""
        self.followed: Follower | None = None
        self.open_spans = 0
        self._instances: dict[str, int] = {}
        self.where = ""
        self._clock = tracing.clock
        self._offset = time.time_ns() - time.perf_counter_ns()
        self._last = 0

    @property
    def root(self) -> Activation:
        """Activation of the orchestrator; of a run that is closed, while somebody holds it.

        Raises:
            ReferenceError: If nobody does.
        """
        root = self._root
        if isinstance(root, Activation):
            return root
        held = root()
        if held is None:
            msg = f"the root of a closed run must be held by who needs it, run {self.id} has none"
            raise ReferenceError(msg)
        return held

    @root.setter
    def root(self, root: Activation) -> None:
        self._root = root

    def now(self) -> int:
        """Nanoseconds since the epoch; later than every time given before in this run.

        One reading of the wall clock a run, carried on by the monotonic one: a clock
        that is set back while a run is open must not put effects before their causes.
        """
        now = self._offset + time.perf_counter_ns() if self._clock is None else self._clock()
        if now <= self._last:
            now = self._last + 1
        self._last = now
        return now

    def instance(self, agent: str) -> str:
        """Return the id of a new life of `agent` in this run, such as `critic#2`."""
        if type(agent) is not str:
            agent = plain_text(agent)
        number = self._instances.get(agent, 0) + 1
        self._instances[agent] = number
        return f"{agent}#{self.where}{number}"

    def settle_apart(self) -> None:
        """Have its instances be others than those of other processes from now on.

        Two processes, or two calls from one span, must not mint one instance id.
        """
        ids = getattr(self.tracing.tracer, "id_generator", None) or _IDS
        self.where = f"{ids.generate_span_id():016x}."
        self.objects.clear()

    def flag(self, name: str) -> None:
        """Say that something of the run was lost."""
        self.flags.add(name)

    def record(self, reward: Reward) -> None:
        """Take a reward that a user gave; one that is unsound is left out.

        Once the run has stopped, or where its root is in another process, it goes where
        `record_reward(..., run_id=...)` sends one.
        """
        fault = reward.fault
        if fault is not None:
            self.flag("rewards_unreadable")
            warn_once(f"reward:{fault}", "a reward's %s; the reward is lost", fault)
        elif self.is_stopped or self.is_remote:
            record_late(self.id, reward)
        else:
            self.rewards.append(reward)

    @guarded
    def provisional(self) -> Trace | None:
        """Return the run's trace as far as it got, with its measures and rewards so far.

        Built when it is asked for, from all that has ended and what is open where it is
        asked: O(events so far), and nothing is kept or sent. Agents that are at work
        elsewhere at that moment count once they come back. What is open is `paused` there, the
        stop is of reason `unknown`, every built-in record is `provisional`, and so is the
        trace: its flags say it. Functions of users are asked when the run stops.

        Returns:
            None once it has stopped, where its root is in another process, or where nothing
            follows runs: `configure` was not called.
        """
        observer = self.tracing.observer
        return None if observer is None else observer.so_far(self)

    def post(self, recipient: str, mark: Mark) -> None:
        """Leave a message for the next activation of `recipient`."""
        waiting = self.inbox.setdefault(recipient, [])
        if len(waiting) < MOST_WAITING:
            waiting.append(mark)
        else:
            self.flag("messages_forgotten")

    def collect(self, recipient: str) -> list[Edge]:
        """Return the messages that wait for `recipient`, which now reads them."""
        return [("message", mark) for mark in self.inbox.pop(recipient, ())]

    @guarded
    def close(
        self,
        *,
        stop_reason: str = "information_complete",
        stop_detail: str | None = None,
        status: str = "ok",
        error: BaseException | None = None,
        edges: Sequence[Edge] = (),
    ) -> None:
        """Stop the run, once: record the stop, score the run, and end its root.

        Args:
            stop_reason: One of `model.STOP_REASONS`; `orchtrace.stop(...)` in the
                host's code goes before it, unless the run did not end well.
            stop_detail: The framework's words; a class name while content is off.
            status: `ok error cancelled paused`.
            error: What the run ended with; its class is recorded.
            edges: Causes of the stop beside those that the root's flow knows.
        """
        if self.is_closed or self.is_remote:
            return
        self.is_closed = True
        root = self.root
        if self.stopping is not None and status == "ok":
            stop_reason, stop_detail = self.stopping
        end: int | None = None
        try:
            stop = self._stop(stop_reason, stop_detail, status, error, edges)
            end = stop.began
            try:
                stop.end_at(end)
            finally:  # an interrupt that comes while the host is told of the stop costs no trace
                self.is_stopped = True
                self._write_end(root, end, status, error)
        except BaseException:
            observer = self.tracing.observer
            if observer is not None and self.followed is not None:
                observer.broken_off(self)
            raise
        finally:  # whatever fails: the spans below the root hang in the air without it
            self.is_stopped = root.is_closed = True
            root.let_go()
            end_span(root.span, self.now() if end is None else end)
            # These hold each other, and would wait for the garbage collector.
            self._root = weakref.ref(root)
            root.inside = None
            self.watcher = None  # likewise

    def _write_end(
        self, root: Activation, end: int, status: str, error: BaseException | None
    ) -> None:
        if error is not None:
            root.set({a.ERROR_TYPE: error_type(error)})
        if status != "ok":
            root.set({a.STATUS: status})
        if status == "error":
            root.span.set_status(Status(StatusCode.ERROR))
        root.write_again()
        observer = self.tracing.observer
        results = observer.closing(self, end) if observer is not None else None
        if results:
            root.span.set_attributes(results)
            root.write_again()

    def _stop(
        self,
        reason: str,
        detail: str | None,
        status: str,
        error: BaseException | None,
        edges: Sequence[Edge],
    ) -> Interval:
        flow = self.root.flow
        causes = flow.drain()
        causes += edges
        if not causes or flow.has_moved:
            causes.insert(0, ("causal", flow.last))
        facts: dict[str, Value] = {a.STOP_REASON: reason}
        if detail is not None:
            facts[a.STOP_DETAIL] = detail
        if status != "ok":
            facts[a.STATUS] = status
        if error is not None:
            facts[a.ERROR_TYPE] = error_type(error)
        if gate.recorder is not None:
            facts.update(gate.recorder.stop(self, detail, error) or {})
        stop = open_point(self.root, "stop", "stop", causes, facts)
        self.stop_id = stop.span_id
        return stop
