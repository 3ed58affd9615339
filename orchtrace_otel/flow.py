"""Implicit causes: what plain code did last, so that what it does next has its cause.

A `Flow` follows one stretch of an agent's work. What is called in it follows from
the latest thing it did, and what came back from callees enters whatever it does
next. Work handed to another asyncio task or thread is a fork, unless all that its
maker does is wait for it: what its source knew goes in, what it does is a sequence of
its own, and what came back to it enters what the source does next. A fork has forks of its
own: of the tasks that it makes, once it has done something. Forks of one source
that run beside each other do not see each other; one that begins when all before it
are over follows from those, unless all of them were handed out together.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    import asyncio

    from opentelemetry.trace import Link

Unit: TypeAlias = "asyncio.Task[object] | int"

P = ParamSpec("P")
R = TypeVar("R")


NOBODY: Final = -1
"""Who runs a flow that is handed on, or over: no task, which would keep its error's frames."""

_MOST_GONE: Final = 10_000
"""What came back to forks that are gone, until their source does something."""
_MOST_WAITING: Final = 100
"""Tasks in a row, each of which waits for the next."""


class Mark(NamedTuple):
    """An event that an edge can start from, and the link to its span.

    Effects of one span share one link where they can: the SDK keeps three more objects
    for each, which the garbage collector looks through until they are exported.
    """

    event_id: str
    link: Link


Edge: TypeAlias = tuple[str, Mark]
"""Type of an edge, one of `model.EDGE_TYPES`, and its cause."""


def unit() -> Unit:
    """Return what runs now: the asyncio task, else the thread's identity."""
    # Whoever runs a loop has imported asyncio; importing it for all others costs more
    # than all of this project.
    tasks = sys.modules.get("asyncio.tasks")
    if tasks is None:
        return threading.get_ident()
    loop = tasks.events._get_running_loop()  # noqa: SLF001 - current_task() raises without one
    return (None if loop is None else tasks.current_task(loop)) or threading.get_ident()


class Flow:
    """One flow of control inside an activation.

    Attributes:
        last: The latest event that is a cause of what comes next.
        owner: The task or thread that runs it.
        heir: The flow that gets what comes back when this one is over.
        joined: What came back to forks after they were over.
        inherits: How far this one, a fork, knows what came back to its source.
        heard: The latest event of this one, a fork, that its source knows.
        runner: Who runs this one, a fork.
        trunk: The flow of the whole stretch of work, of which this one is a fork.
    """

    __slots__ = (
        "__weakref__",
        "_dropped",
        "_first",
        "_forks",
        "_gone",
        "_gone_knew",
        "_latest",
        "_pending",
        "_since",
        "_superseded",
        "_together",
        "_told",
        "heard",
        "heir",
        "inherits",
        "joined",
        "last",
        "owner",
        "runner",
        "trunk",
    )

    def __init__(self, last: Mark, owner: Unit, known: Sequence[Edge] = ()) -> None:
        self.last = self._first = last
        self.owner = owner
        self._pending: list[Edge] = list(known)
        self._told = len(self._pending)
        self._dropped = 0
        self._superseded = 0
        self.inherits = 0
        self.heard = last
        self._latest: list[Edge] | None = None
        self._since: Mark | None = None
        self._forks: dict[int, tuple[weakref.ref[_Runner], Flow]] | None = None
        self._gone: deque[Edge] | None = None
        self._together: tuple[weakref.ref[Together], Sequence[Edge], int] | None = None
        self.joined: list[Edge] | None = None
        self.heir: Flow | None = None
        self.runner: weakref.ref[_Runner] | None = None
        self.trunk: weakref.ref[Flow] | None = None

    @property
    def has_moved(self) -> bool:
        """Whether something happened in it since it began."""
        return self.last is not self._first

    def here(self) -> Flow:
        """Return the flow of the task or thread that asks: this one, or a fork of it."""
        asking = unit()
        if asking is self.owner or asking == self.owner:
            return self
        job = _running.job
        if job is not None and job.source is self:
            return job.fork.here()
        if isinstance(asking, int):
            return self._fork_of(threading.current_thread())
        made_in = self._made_in()
        if made_in.runner is not None and made_in.runner() is asking:
            return made_in
        fork = made_in._fork_of(asking)  # noqa: SLF001 - another flow
        if fork is not made_in:
            _LATEST.set(fork)  # for the tasks that this one makes: they take its context along
        return fork

    def _made_in(self) -> Flow:
        """Return the fork of this flow that made the task which asks; itself where none did."""
        found = _LATEST.get()
        if found is None or found.trunk is None or found.trunk() is not self:
            return self
        while found.heir is not None:
            found = found.heir
        return found

    def _fork_of(self, runner: _Runner) -> Flow:
        """Return the fork of who runs now, or this flow where its own runner waits for that."""
        known = None if self._forks is None else self._forks.get(id(runner))
        if known is not None and known[0]() is runner:
            return known[1]
        if _waits_for(self.owner if self.runner is None else self.runner(), runner):
            return self
        return self.fork(runner, NOBODY)

    def fork(self, runner: _Runner, owner: Unit, together: Together | None = None) -> Flow:
        """Begin a flow of what is handed to `runner` now, on its own or `together` with others."""
        if self._forks is not None and self._are_forks_over():
            self._join()
        self._supersede()
        known, inherits = self._pending or self._shared(), self._dropped + len(self._pending)
        if together is not None:
            if self._together is None or self._together[0]() is not together:
                self._together = weakref.ref(together), tuple(known), inherits
            _, known, inherits = self._together
        fork = Flow(self.last, owner, known)
        fork.inherits = inherits
        fork.runner = weakref.ref(runner)
        fork.trunk = self.trunk or weakref.ref(self)
        if self._forks is None:
            self._forks = {}
        before = self._forks.get(id(runner))
        self._forks[id(runner)] = (fork.runner, fork)
        if before is not None:
            self._let_go(before[1])
        return fork

    def _let_go(self, gone: Flow) -> None:
        """Remember what came back to a fork whose runner is gone: another stands in its place.

        Not so that those beside it see it, which may go on.
        """
        told = gone.tell()
        if told:
            if self._gone is None:
                self._gone, self._gone_knew = deque(maxlen=_MOST_GONE), 0
            self._gone += told
            self._gone_knew = max(self._gone_knew, gone.inherits)
        self._adopt(gone)

    def _with_gone(self, news: list[Edge], superseded: int) -> tuple[list[Edge], int]:
        if not self._gone:
            return news, superseded
        return [*self._gone, *news], max(superseded, self._gone_knew - self._dropped)

    def _are_forks_over(self) -> bool:
        try:
            # The latest ones first: where many tasks wait for few places, those still run.
            forks = reversed((self._forks or {}).values())
            return all(_is_over(ref()) for ref, _ in forks)
        except RuntimeError:  # another thread began one just now
            return False

    def returned(self, mark: Mark, edge_type: str = "return") -> None:
        """Note that a callee's close came back to this flow."""
        if self.heir is None:
            self._pending.append((edge_type, mark))
            return
        heir = self.heir
        while heir.heir is not None:
            heir = heir.heir
        if heir.joined is None:
            heir.joined = []
        heir.joined.append((edge_type, mark))

    def take(self, edge_type: str = "causal") -> list[Edge]:
        """Return the causes of what the flow does next; returns are handed out once."""
        return [(edge_type, self.last), *self._hand_out()]

    def take_beside(self, edge_type: str = "causal") -> tuple[list[Edge], int]:
        """Return the causes of what the flow begins and does not wait for, and how many it knew.

        What came back is told to what the flow does next as well, unless that which begins
        is back by then: `returned_beside` takes the number.
        """
        if self._forks is not None or self.joined is not None:
            self._join()
        self._supersede()
        edges = [(edge_type, self.last), *(self._pending or self._shared())]
        return edges, self._dropped + len(self._pending)

    def returned_beside(self, mark: Mark, knew: int) -> None:
        """Note that what `take_beside` told of is back, in the place of what it knew."""
        self._superseded = max(self._superseded, knew)
        self.returned(mark)

    def _supersede(self) -> None:
        """Forget what led to something that is back."""
        superseded = self._superseded - self._dropped
        if superseded > 0:
            del self._pending[:superseded]
            self._dropped += superseded
            self._told = max(self._told - superseded, 0)

    def _shared(self) -> Sequence[Edge]:
        """Return the causes that what the source waits for right now has taken."""
        return self._latest if self._latest and self._since is self.last else ()

    def drain(self) -> list[Edge]:
        """Return what came back since the flow last did something."""
        return self._hand_out().copy()

    def held(self) -> tuple[list[Edge], int]:
        """Return what `drain` would, and how much of it a source was told; change nothing."""
        news: list[Edge] = []
        superseded = 0
        for _, fork in list((self._forks or {}).values()):
            held, told = fork.held()
            untold = held[told:]
            if fork.heard is not fork.last:
                untold.append(("causal", fork.last))
            if untold:
                news += untold
                superseded = max(superseded, fork.inherits - self._dropped)
        news, superseded = self._with_gone(news, superseded)
        held = [*self._pending[superseded:], *news, *(self.joined or ())]
        return held, max(self._told - superseded, 0)

    def _hand_out(self) -> list[Edge]:
        if self._forks is not None or self.joined is not None:
            self._join()
        if self._superseded > self._dropped:
            self._supersede()
        self._together = None
        edges = self._pending
        if edges:
            self._latest, self._since = edges, self.last
            self._dropped += len(edges)
            self._pending = []
            self._told = 0
        return edges

    def _join(self) -> None:
        """Take in what came back to forks, in the place of what led to it."""
        news: list[Edge] = []
        superseded = 0
        for key, (ref, fork) in list((self._forks or {}).items()):
            is_over = _is_over(ref())
            told = fork.tell()
            if told:
                news += told
                superseded = max(superseded, fork.inherits - self._dropped)
            if is_over and self._forks is not None:
                if self._forks.get(key, (ref, fork))[1] is fork:
                    self._forks.pop(key, None)
                self._adopt(fork)
        if not self._forks:
            self._forks = None
        news, superseded = self._with_gone(news, superseded)
        self._gone = None
        if superseded:
            del self._pending[:superseded]
            self._dropped += superseded
            self._told = max(self._told - superseded, 0)
        if self.joined is not None:
            news += self.joined
            self.joined = None
        self._pending += news

    def _adopt(self, over: Flow) -> None:
        """Take on what comes of a fork that is over: its own forks, which may not be."""
        over.heir = self
        for key, (ref, fork) in (over._forks or {}).items():
            fork.inherits = 0
            if self._forks is None:
                continue
            before = self._forks.get(key)
            if before is not None and ref() is None:
                self._let_go(fork)
                continue
            self._forks[key] = (ref, fork)
            if before is not None and before[1] is not fork:
                self._let_go(before[1])

    def tell(self) -> list[Edge]:
        """Return what came back to this fork, or it did, that its source has not heard of."""
        if self._forks is not None or self.joined is not None:
            self._join()
        self._supersede()
        news = self._pending[self._told :]
        self._told = len(self._pending)
        if self.heard is not self.last:
            self.heard = self.last
            news.append(("causal", self.last))
        return news


class Together:
    """What a thread hands to pools meanwhile is handed out together: none waits for another.

    Without it what is over before the next is handed out looks as if that had waited for it.
    """

    __slots__ = ("__weakref__", "_around")

    def __enter__(self) -> None:
        self._around, _running.together = _running.together, self

    def __exit__(self, *_: object) -> None:
        _running.together = self._around


class Job:
    """Work that was handed to a pool: its causes are those of the moment of handing over.

    Attributes:
        source: The flow of the activation that handed it over.
        fork: The flow of the work itself.
    """

    __slots__ = ("__weakref__", "_is_over", "fork", "source")

    def __init__(self, source: Flow) -> None:
        self.source = source
        self.fork = source.here().fork(self, NOBODY, _running.together)
        self._is_over = False

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do the work on the thread of a pool, or on that which waits for who handed it over."""
        before, _running.job = _running.job, self
        here, owner = threading.get_ident(), self.source.owner
        self.fork.owner = here
        if owner == here:
            self.source.owner = NOBODY
        try:
            return function(*args, **kwargs)
        finally:
            if owner == here and self.source.owner == NOBODY:
                self.source.owner = owner
            _running.job = before
            self._is_over = True

    def done(self) -> bool:
        """Whether the work is over."""
        return self._is_over


_Runner: TypeAlias = "asyncio.Task[object] | threading.Thread | Job"


_LATEST: Final[ContextVar[Flow | None]] = ContextVar("orchtrace-flow", default=None)
"""The fork that the task which runs here is, of the flow that it was a fork of last."""


class _Running(threading.local):
    job: Job | None = None
    together: Together | None = None


_running = _Running()


def _waits_for(owner: Unit | _Runner | None, runner: _Runner) -> bool:
    """Whether a task does nothing but wait for another, which then does its work.

    So frameworks run a coroutine in a task of its own. asyncio has no public name for what
    a task waits for; two that wait for each other would do so for ever.
    """
    waits: object = owner
    for _ in range(_MOST_WAITING):
        waits = getattr(waits, "_fut_waiter", None)
        if waits is None or waits is runner:
            break
    return waits is runner


def _is_over(runner: _Runner | None) -> bool:
    """Whether nothing more comes of a runner.

    A thread that Python did not begin, and a greenlet, have stand-ins: of a class of their own,
    where they are greenlets, and they raise when they are asked after their end.
    """
    if runner is None:
        return True
    done: Callable[[], bool] | None = getattr(runner, "done", None)
    if done is not None:
        return done()
    try:
        return not cast("threading.Thread", runner).is_alive()
    except (AssertionError, RuntimeError):
        return True
