"""Interventions of people, and runs that go on where others left their checkpoints.

A run that starts from a checkpoint is linked to the run that left it: to its stop, or
to its begin where it is another checkpoint than the last. Checkpoints are the host's and
stay as they are: one is known again by its id, in this process. To be known in another
one it must carry a key of ours in its metadata, which the host has to ask for.
"""

from __future__ import annotations

import re
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from orchtrace_langgraph._content import asks_person, person_answers
from orchtrace_langgraph._framework import COMMAND, is_a
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Mark
from orchtrace_otel.spans import Activation, Value

if TYPE_CHECKING:
    from orchtrace_langgraph._tasks import Task

K = TypeVar("K")
V = TypeVar("V")

KEY: Final = "orchtrace"
"""Key in the metadata of checkpoints that carry their link."""

_LINK: Final = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}:[0-9a-f]{16}(\.open|\.close)?")
_MOST_LEFT: Final = 10_000
"""Checkpoints, and threads, that are remembered; the oldest go first, and their links with them."""

_MOST_INTERRUPTS: Final = 100


class Left(NamedTuple):
    """What left a checkpoint.

    Attributes:
        link: The event that a later run goes on from, `<run id>:<event id>`.
        task_id: What that run was asked, if it is known.
        is_paused: Whether it stopped there to wait for somebody.
    """

    link: str
    task_id: str | None = None
    is_paused: bool = False


_checkpoints: Final[OrderedDict[str, Left]] = OrderedDict()
_threads: Final[OrderedDict[tuple[int, str], tuple[weakref.ref[Any], Left]]] = OrderedDict()
"""Threads by the identity of what keeps them: two databases may well have threads of one name."""


def forget() -> None:
    """Forget every checkpoint."""
    _checkpoints.clear()
    _threads.clear()


def remembers(loop: Any) -> bool:
    """Whether others may go on from a loop's checkpoints: those in it are part of its own."""
    return loop.checkpointer is not None and not loop.is_nested


@guarded
def passed(loop: Any, left: Left) -> None:
    """Note who left the checkpoint that a loop stands at, unless it went on from there itself.

    Others may go on from there as well, at the same time or later.
    """
    here = loop.checkpoint["id"]
    if here != loop.checkpoint_id_saved:
        _put(_checkpoints, here, left)


@guarded
def ended(loop: Any, left: Left) -> None:
    """Note who left the checkpoint at which a loop ended, and its thread."""
    checkpoint = getattr(loop, "checkpoint", None)
    if checkpoint is not None:  # else it could not even be read
        _put(_checkpoints, checkpoint["id"], left)
        with suppress(TypeError):  # a saver of the host's may allow no weak reference
            _put(_threads, _thread(loop), (weakref.ref(loop.checkpointer), left))


def _thread(loop: Any) -> tuple[int, str]:
    return id(loop.checkpointer), str(_configurable(loop.config).get("thread_id", ""))


def _put(known: OrderedDict[K, V], key: K, left: V) -> None:
    known[key] = left
    known.move_to_end(key)
    if len(known) > _MOST_LEFT:
        known.popitem(last=False)


class Start(NamedTuple):
    """How a loop is told to start, noted before it reads its checkpoint.

    Attributes:
        name: What the host does: `resume goto update fork`, or None for new input.
        is_addressed: Whether it names the checkpoint.
        answers: The interrupts that a resume names.
        goes_on: Whether it goes on from a checkpoint if there is one.
        answer: What a person answered, which is content.
    """

    name: str | None
    is_addressed: bool
    answers: tuple[str, ...]
    goes_on: bool
    answer: Any = None


def start_of(loop: Any) -> Start | None:
    """Return how a loop that may go on from a checkpoint is told to start; None for another."""
    if not remembers(loop):
        return None
    given: Any = loop.input
    is_addressed = bool(_configurable(loop.config).get("checkpoint_id"))
    if is_a(given, COMMAND):
        resume: Any = given.resume
        if resume is None:
            return Start("goto" if given.goto else "update", is_addressed, (), goes_on=True)
        named: tuple[Any, ...] = tuple(given.resume) if isinstance(resume, dict) else ()
        answers = named[:_MOST_INTERRUPTS] if all(map(_is_interrupt_id, named)) else ()
        return Start("resume", is_addressed, answers, goes_on=True, answer=resume)
    return Start("fork" if is_addressed else None, is_addressed, (), is_addressed or given is None)


def _is_interrupt_id(key: object) -> bool:
    return isinstance(key, str) and re.fullmatch("[0-9a-f]{32}", key) is not None


def _configurable(config: Any) -> dict[str, Any]:
    found: dict[str, Any] = config.get("configurable") or {}
    return found


class GoneOn(NamedTuple):
    """What is known of a run that goes on from another.

    Attributes:
        mark: What a person did in between, if it was a person.
        task_id: What was asked, if the run before knew it.
    """

    mark: Mark | None = None
    task_id: str | None = None


@guarded
def go_on(loop: Any, start: Start, carried: object, activation: Activation) -> GoneOn:
    """Link a run to the one that left its checkpoint, and record what a person did in between.

    Args:
        loop: The loop, which has read its checkpoint.
        start: How it was told to start.
        carried: What the checkpoint's metadata say under our key.
        activation: The orchestrator's.
    """
    if not start.goes_on:
        return GoneOn()
    left = _found(loop, carried)
    links = _link(activation, left)
    task_id = None if left is None else left.task_id
    name = _name(loop, start, left)
    if name is None:
        return GoneOn(None, task_id)
    facts: dict[str, Value] = {a.DECISION_NAME: name, a.FROM: "user"}
    facts.update(person_answers(activation.run, start.answer) or {})
    answers = start.answers or (_pending(loop) if name == "resume" else ())
    if answers:
        facts[a.INTERRUPTS] = answers
    if links:
        facts[a.RUN_LINKS] = links
    edges = [("causal", activation.opened)]
    mark = spans.instant(activation, "human_intervention", edges=edges, attributes=facts)
    return GoneOn(mark, task_id)


def _link(activation: Activation, left: Left | None) -> tuple[str, ...]:
    """Link the orchestrator's activation to the run before; what was asked there is asked here."""
    if left is None:
        return ()
    if left.task_id is not None and activation.parent is None:
        activation.set({a.TASK_ID: left.task_id})
    if left.link.startswith(f"{activation.run.id}:"):
        return ()  # part of the same run, in which edges say it
    activation.set({a.RUN_LINKS: (left.link,)})
    spans.link_runs(activation, (left.link,))
    return (left.link,)


def _name(loop: Any, start: Start, left: Left | None) -> str | None:
    """Return what a person did before the loop went on, if it was a person."""
    if start.name in (None, "fork") and loop.checkpoint_metadata.get("source") == "update":
        return "update_state"
    if start.name is None and left is not None and left.is_paused:
        return "resume"
    return start.name


def _found(loop: Any, carried: object) -> Left | None:
    found = _checkpoints.get(loop.checkpoint_id_saved)
    if found is None and isinstance(carried, str) and _LINK.fullmatch(carried):
        return Left(carried)
    if found is None:
        # Somebody updated the state: the checkpoint before is the one that a run left,
        # or after several updates the thread's last one.
        before: Any = _configurable(loop.prev_checkpoint_config or {})
        found = _checkpoints.get(before.get("checkpoint_id") or "")
    if found is None and loop.checkpoint_metadata.get("source") == "update":
        saver, left = _threads.get(_thread(loop), (None, None))
        found = left if saver is not None and saver() is loop.checkpointer else None
    return found


def _pending(loop: Any) -> tuple[str, ...]:
    """Return the interrupts that wait for an answer; of each its id alone is read.

    The question of a task stays in the checkpoint until the step is over, though the task was
    answered in an earlier run, and is done.
    """
    pending: Iterable[Any] = loop.checkpoint_pending_writes
    done = {task_id for task_id, channel, _ in pending if channel not in _NO_RESULT}
    return _ids(
        value
        for task_id, channel, value in pending
        if channel == "__interrupt__" and task_id not in done
    )


_NO_RESULT: Final = frozenset(
    ("__error__", "__error_source_node__", "__interrupt__", "__resume__", "__scheduled__")
)
"""Channels that say what became of a task which is not done; whoever is done wrote another one."""


def _ids(values: Iterable[Any]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in values:
        many = isinstance(value, (list, tuple))
        for one in cast("Iterable[Any]", value) if many else (value,):
            interrupt_id: object = getattr(one, "id", None)
            if isinstance(interrupt_id, str) and len(found) < _MOST_INTERRUPTS:
                found[interrupt_id] = None
    return tuple(found)


def asked(task: Task, activation: Activation, error: BaseException | None) -> None:
    """Record that a task stops to ask somebody, unless one inside of it has done so."""
    if not any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__):
        return
    if task.caller is not None:
        task.caller.has_asked = True
    if task.has_asked:
        return
    facts: dict[str, Value] = {a.DECISION_NAME: "interrupt", a.TO: "user"}
    facts.update(asks_person(activation.run, error) or {})
    ids = _ids(error.args if error is not None else ())
    if ids:
        facts[a.INTERRUPTS] = ids
    flow = activation.flow
    flow.last = spans.instant(activation, "human_intervention", edges=flow.take(), attributes=facts)
