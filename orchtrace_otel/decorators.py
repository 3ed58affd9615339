"""`@agent`, `@tool` and `@team`, over spans/.

What becomes what:

- a call of a decorated function is one activation of the agent (or one tool call, or
  one run); the agent that is current when it is called is its parent, and the
  outermost `@agent` call gets a run around it;
- calls one after another from one parent share an instance, calls that overlap
  (a gather, threads) are instances of their own; a loop is one instance used again;
- a coroutine is open while it is awaited, a generator from its first item to its end,
  its close, or the moment its consumer drops it; nothing is current in between;
- a class traces the entry methods it defines itself (`ENTRY_METHODS`), and each
  object is an instance of its own;
- an object is handed to the adapter of its framework, else its entry methods are
  traced through a proxy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, overload

from orchtrace_otel import adapter as adapters
from orchtrace_otel._arguments import check_judge, check_tags, check_text
from orchtrace_otel.calls import Plan
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.methods import method_of
from orchtrace_otel.model import plain_text
from orchtrace_otel.wrapping import SELF, trace_function

F = TypeVar("F")

ENTRY_METHODS: Final = (
    "__call__",
    "run",
    "arun",
    "run_stream",
    "invoke",
    "ainvoke",
    "stream",
    "astream",
)
"""Methods that are the work of an object, where a class or an object is decorated."""


def _trace_class(plan: Plan, kind: type) -> type:
    found = [name for name in ENTRY_METHODS if inspect.isfunction(vars(kind).get(name))]
    if not found:
        msg = (
            f"@{plan.kind} needs a class that defines one of {', '.join(ENTRY_METHODS)}, "
            f"{kind.__qualname__} defines none; decorate the method that does its work instead"
        )
        raise ConfigError(msg)
    for name in found:
        setattr(kind, name, trace_function(plan, vars(kind)[name], SELF))
    return kind


def _apply(plan: Plan, target: Any) -> Any:
    """Trace whatever was decorated."""
    kind = cast("Any", type(target))
    if issubclass(kind, (staticmethod, classmethod)):
        return cast("Any", kind)(trace_function(plan, target.__func__))
    if issubclass(kind, type):
        return _trace_class(plan, target)
    if callable(target) and (inspect.isroutine(target) or issubclass(kind, functools.partial)):
        return _keep_its_own(trace_function(plan, target), target)
    claimed = adapters.wrap(target, plan.name, plan.role)
    if claimed is not None:
        _check_it_takes(plan, kind)
        return claimed
    methods = [name for name in ENTRY_METHODS if callable(getattr(target, name, None))]
    if methods:
        from orchtrace_otel.proxy import stand_in  # noqa: PLC0415 - wrapt takes long to load

        return stand_in(target, methods, plan)
    if hasattr(kind, "__get__"):  # a property, a partialmethod, a singledispatchmethod
        help_ = f"decorate the function, below the {kind.__qualname__}"
    else:
        help_ = "for a framework's object install its extra and see `orchtrace doctor`"
    msg = (
        f"@{plan.kind} needs something that can be called, or an object with one of "
        f"{', '.join(ENTRY_METHODS)}, got {kind.__qualname__}; {help_}"
    )
    raise ConfigError(msg)


def _check_it_takes(plan: Plan, kind: Any) -> None:
    """Refuse what a framework's object has no place for: its adapter gives it a name and a role.

    Raises:
        ConfigError: If it is asked to be a tool, or for facts of a run.
    """
    facts = {"task_id": plan.task_id, "tags": plan.tags, "reward": plan.reward}
    asked = ", ".join(name for name, held in facts.items() if held is not None)
    if plan.kind == "tool" or asked:
        msg = (
            f"@{plan.kind} gives a framework's object a name alone, got "
            f"{asked or 'a tool to be made'} of {kind.__qualname__}; decorate the function that "
            f"calls it, or its method, as in orchtrace.{plan.kind}(...)(it.invoke)"
        )
        raise ConfigError(msg)


def _keep_its_own(traced: Any, target: Any) -> Any:
    """Give a traced function what its kind has beyond functions: a cache its `cache_clear`.

    A method has its object: frameworks look for it.
    """
    if not inspect.isfunction(target):
        for name in dir(target):
            is_its_own = name == "__self__" or not name.startswith("_")
            if is_its_own and not hasattr(traced, name):
                setattr(traced, name, getattr(target, name))
    return traced


def _name_of(target: Any) -> str:
    """Return the name of something that was decorated without one."""
    if issubclass(type(target), (staticmethod, classmethod)):
        target = target.__func__
    while issubclass(type(target), functools.partial):
        target = target.func
    for name in (getattr(target, "__name__", None), getattr(target, "name", None)):
        if isinstance(name, str) and name:
            return name.strip("<>")
    return type(target).__name__


def _decorate(kind: str, target: Any, name: Any, **facts: Any) -> Any:
    """Decorate `target`, or return the decorator where it was called with arguments."""
    if isinstance(target, str):
        if name is not None:
            msg = f"@{kind} takes one name, got {target!r} and name={name!r}"
            raise ConfigError(msg)
        target, name = None, target
    if name is not None and (not isinstance(name, str) or not name.strip()):
        msg = f"@{kind} needs a name that is a text with something in it, got {name!r}"
        raise ConfigError(msg)
    name = None if name is None else plain_text(name)

    def decorate(target: Any) -> Any:
        plan = Plan(kind, name or _name_of(target), method=method_of(target), **facts)
        return _apply(plan, target)

    return decorate if target is None else decorate(target)


@overload
def agent(name: str | None = None, /, *, role: str | None = None) -> Callable[[F], F]: ...
@overload
def agent(target: F, /, *, name: str | None = None, role: str | None = None) -> F: ...
def agent(target: Any = None, /, *, name: str | None = None, role: str | None = None) -> Any:
    """Make each call an activation of an agent.

    Takes functions, coroutines, generators, methods, classes, callables and objects
    of frameworks, with and without parentheses. What is decorated keeps its
    signature, name, docs and type, and does what it did.

    Args:
        target: What is decorated, or the agent's name.
        name: The agent's name where `target` is an object; its own name unless given.
        role: What it does in the team, such as `planner` or `executor`.

    Raises:
        ConfigError: If it cannot be traced, or the name is empty.

    Example:
        >>> @agent("searcher", role="executor")
        ... def search(question):
        ...     return question.upper()
        >>> search("who?")
        'WHO?'
    """
    check_text("agent", "role", role)
    return _decorate("agent", target, name, role=role)


@overload
def tool(name: str | None = None, /, *, replay_safe: bool = False) -> Callable[[F], F]: ...
@overload
def tool(target: F, /, *, name: str | None = None, replay_safe: bool = False) -> F: ...
def tool(target: Any = None, /, *, name: str | None = None, replay_safe: bool = False) -> Any:
    """Make each call inside a run a tool call of the agent that is current.

    Args:
        target: What is decorated, or the tool's name.
        name: The tool's name where `target` is an object.
        replay_safe: Whether `counterfactual` may call it again: it changes nothing in
            the world. Otherwise replays get its recorded result, or are blocked.

    Raises:
        ConfigError: If it cannot be traced, or the name is empty.
    """
    if not isinstance(cast("object", replay_safe), bool):
        msg = f"@tool needs replay_safe to be True or False, got {replay_safe!r}"
        raise ConfigError(msg)
    return _decorate("tool", target, name, replay_safe=replay_safe)


@overload
def team(
    name: str | None = None,
    /,
    *,
    task_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    reward: Callable[[Any], float | Mapping[str, float]] | None = None,
) -> Callable[[F], F]: ...
@overload
def team(
    target: F,
    /,
    *,
    name: str | None = None,
    task_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    reward: Callable[[Any], float | Mapping[str, float]] | None = None,
) -> F: ...
def team(
    target: Any = None,
    /,
    *,
    name: str | None = None,
    task_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    reward: Callable[[Any], float | Mapping[str, float]] | None = None,
) -> Any:
    """Make each call a run; inside another run it is an agent of that run.

    Args:
        target: What is decorated, or the team's name.
        name: The team's name where `target` is an object.
        task_id: What is asked; runs of one task can be compared. Unless given, a keyed
            hash of the input where `ORCHTRACE_KEY` or `ORCHTRACE_STORE` is set or content
            is captured into a store, else the run's id.
        tags: Your own keys and values, texts both.
        reward: Called with what a run returned; gives the task's reward, a number,
            or several by component. What it raises costs the reward, not the run.

    Raises:
        ConfigError: If an argument does not hold what it must.
    """
    check_text("team", "task_id", task_id)
    if reward is not None:
        check_judge("@team needs a reward that can be called with the result", reward)
    check_tags(tags)
    return _decorate("team", target, name, task_id=task_id, tags=tags, reward=reward)
