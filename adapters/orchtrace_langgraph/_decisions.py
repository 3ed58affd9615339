"""What a task decided: the choices of its routers, and the `Command` that it returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from orchtrace_langgraph import _tasks
from orchtrace_langgraph._framework import COMMAND, is_a
from orchtrace_langgraph._tasks import Task
from orchtrace_otel._guard import guarded

_NONE: Final[frozenset[int]] = frozenset()


class Decision(NamedTuple):
    """What was chosen: nodes, or packets for nodes, out of candidates where these are known."""

    name: str | None
    chosen: tuple[str, ...]
    sends: frozenset[int]
    candidates: tuple[str, ...] | None


@guarded
def chose(branch: Any, result: Any) -> None:
    """Note what a router of the task that runs here chose."""
    task = _tasks.here()
    if task is None:
        return
    ends = branch.ends
    candidates = tuple(dict.fromkeys(ends.values())) if ends else None
    name = getattr(branch.path, "name", None)
    _note(task, id(branch), Decision(name, *_read(result, ends), candidates))


def went(task: Task, result: Any) -> None:
    """Note where a task goes by the `Command` that its node returned, if it did."""
    commands = [one for one in _each(result) if is_a(one, COMMAND)]
    goals = [goal for command in commands for goal in _each(command.goto)]
    if goals and task.caller is None:
        _note(task, None, Decision("goto", *_read(goals, None), None))


def _each(value: Any) -> list[Any]:
    many = isinstance(value, (list, tuple))
    return list(cast("Iterable[Any]", value)) if many else [value]


def _read(result: Any, ends: Mapping[Any, str] | None) -> tuple[tuple[str, ...], frozenset[int]]:
    """Return the nodes that goals name, and the identities of those that are packets."""
    if isinstance(result, str):
        return (ends[result] if ends else result,), _NONE
    names: dict[str, None] = {}
    sends: set[int] = set()
    for goal in _each(result):
        node = None if isinstance(goal, str) else getattr(goal, "node", None)
        if isinstance(node, str):
            sends.add(id(goal))
            names[node] = None
        else:
            name = ends[goal] if ends else goal
            names[name if isinstance(name, str) else str(name)] = None
    return tuple(names), frozenset(sends)


def _note(task: Task, key: int | None, decision: Decision) -> None:
    if task.decisions is None:
        task.decisions = {}
    task.decisions[key] = decision
