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
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from opentelemetry import context as otel_context

from orchtrace_otel import adapter as adapters
from orchtrace_otel import content, spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.flow import Flow, Mark
from orchtrace_otel.spans import Activation, Run, Scope

if TYPE_CHECKING:
    from opentelemetry.context import Context

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

MARK: Final = "__orchtrace__"
"""Attribute of a traced function that holds its `Plan`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a decorated callable becomes.

    Attributes:
        kind: `agent`, `tool` or `team`.
        name: Name of the agent, the tool or the team.
        role: The agent's role.
        task_id: The team's task, if it always has the same.
        tags: The team's own keys and values.
        reward: Given what a run returned, a number or numbers by component.
    """

    kind: str
    name: str
    role: str | None = None
    task_id: str | None = None
    tags: Mapping[str, str] | None = None
    reward: Callable[[Any], float | Mapping[str, float]] | None = None


class Call:
    """One call of a decorated callable, from its opening to its close.

    Attributes:
        plan: What it is a call of.
        scope: The activation or tool call that it is.
        flow: The flow of control it came from and returns to; None for a team's run.
        run: The run that ends with it, if it began one.
    """

    __slots__ = ("flow", "plan", "run", "scope")

    def __init__(self, plan: Plan, scope: Scope, flow: Flow | None, run: Run | None = None) -> None:
        self.plan = plan
        self.scope = scope
        self.flow = flow
        self.run = run


@guarded
def open_call(
    plan: Plan, owner: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call | None:
    """Open a call; None where nothing is to be traced and the host is called as it is."""
    context = otel_context.get_current()
    scope = spans.scope_of(context)
    if scope is None or (scope.run.is_closed and not scope.run.is_remote):
        if spans.tracing() is None:
            return None
        # Work that begins in a task that outlived its run is not that run's.
        scope = spans.join_run() if scope is None else None
        if scope is None:
            return _open_run(plan, owner, args, kwargs)
    if not scope.run.is_recording or spans.is_suppressed(context):
        return None
    flow = scope.flow.here()
    caller = scope.activation
    if plan.kind == "tool":
        return Call(
            plan, spans.open_tool(caller, plan.name, edges=flow.take(), context=context), flow
        )
    # An adapter that opened an activation for this very function says so by its plan.
    if caller.owner is plan or (owner is not None and caller.owner is owner):
        return None
    return Call(plan, _open_agent(plan, owner, caller, flow, context), flow)


def _open_agent(
    plan: Plan, owner: object, caller: Activation, flow: Flow, context: Context
) -> Activation:
    name = plan.name
    instance, is_new = caller.busy(name) if owner is None else caller.of_object(name, owner)
    announced = caller.expected(name) if caller.announced else None
    if announced is not None:
        opens = "begin"
        edges = [announced, *flow.drain()]
    elif is_new:
        opens = "spawn"
        edges = flow.take("spawn")
    else:
        opens = "delegate"
        edges = flow.take("causal")
    if caller.run.inbox:
        edges += caller.run.collect(name)
    activation = spans.open_activation(
        caller, name, opens=opens, instance=instance, role=plan.role, edges=edges, context=context
    )
    activation.owner = owner
    return activation


def _open_run(
    plan: Plan, owner: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call | None:
    if plan.kind == "tool":
        return None
    run = spans.start_run(
        plan.name,
        agent=plan.name if plan.kind == "team" else "orchestrator",
        task_id=plan.task_id
        or content.task_id(args[1:] if args and args[0] is owner else args, kwargs),
        tags=plan.tags,
    )
    if run is None:
        return None
    root = run.root
    if plan.kind == "team" or not run.is_recording:
        root.owner = owner
        return Call(plan, root, None, run)
    agent = _open_agent(plan, owner, root, root.flow, root.context)
    return Call(plan, agent, root.flow, run)


@guarded
def close_call(call: Call, result: object, error: BaseException | None = None) -> None:
    """Close a call, once, that came back with `result` or ended with `error`."""
    scope, flow, plan = call.scope, call.flow, call.plan
    if scope.is_closed:
        return
    status, reason = spans.outcome(error)
    if flow is not None:
        scope.end(status, (), error if status == "error" else None)
        closed = scope.closed
        if isinstance(scope, Activation):
            flow.returned(closed)
            _give_back(plan, scope, closed, result, error)
        else:
            flow.returned(closed, "tool_dependency")
    run = call.run
    if run is None:
        return
    run.root.owner = None
    if plan.reward is not None and error is None:
        from orchtrace_otel.rewards.given import given_rewards  # noqa: PLC0415 - only who gives any

        for reward in given_rewards(plan.reward, result, run.flag):
            run.record(reward)
    run.close(
        stop_reason=reason,
        stop_detail=None if error is None else spans.error_type(error),
        status=status,
        error=error if status == "error" else None,
    )


def _give_back(
    plan: Plan, agent: Activation, closed: Mark, result: object, error: BaseException | None
) -> None:
    """Let the caller use the instance again, and merge what it gave back."""
    caller = agent.parent
    if caller is None:
        return
    if agent.owner is None:
        caller.release(plan.name, agent.instance)
    agent.owner = None
    if error is None:
        caller.remember(closed, result, plan.name)


detach: Final = otel_context.detach


def trace_function(
    plan: Plan, function: Callable[..., Any], owner: object = None
) -> Callable[..., Any]:
    """Return `function` traced as `plan` says, of the same kind and signature."""
    if inspect.isasyncgenfunction(function):
        traced = _trace_async_generator(plan, function, owner)
    elif inspect.isgeneratorfunction(function):
        traced = _trace_generator(plan, function, owner)
    elif inspect.iscoroutinefunction(function):
        traced = _trace_coroutine(plan, function, owner)
    else:
        traced = _trace_call(plan, function, owner)
    setattr(traced, MARK, plan)
    return traced


def _trace_call(plan: Plan, function: Callable[..., Any], owner: object) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        call = open_call(plan, _whose(owner, args), args, kwargs)
        if call is None:
            return function(*args, **kwargs)
        token = call.scope.attach()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            detach(token)
            close_call(call, None, error)
            del call, token  # the error holds this frame for as long as the host keeps it
            raise
        detach(token)
        # By type alone: asking a lazy result for its class would load it.
        if type(result) is CoroutineType:
            return _awaited(call, result)
        if hasattr(type(result), "add_done_callback"):  # a future of asyncio or of a pool
            _close_with(call, result)
        else:
            close_call(call, result)
        return result

    return traced


@guarded
def _close_with(call: Call, future: Any) -> None:
    try:
        future.add_done_callback(functools.partial(_close_future, call))
    except Exception:
        close_call(call, future)
        raise


@guarded
def _close_future(call: Call, future: Any) -> None:
    try:
        result = future.result()
    except BaseException as error:  # noqa: BLE001 - the future's own, told to whoever awaits it
        close_call(call, None, error)
    else:
        close_call(call, result)


def _awaited(call: Call, coroutine: Any) -> Any:
    """Return a coroutine that finishes the call; one that nobody awaits ends the call too."""
    finishing: Any = _await(call, coroutine)
    finishing.__name__, finishing.__qualname__ = coroutine.__name__, coroutine.__qualname__
    weakref.finalize(finishing, _forget, call, coroutine).atexit = False
    return finishing


def _forget(call: Call, coroutine: Any) -> None:
    if not call.scope.is_closed:
        # Python warns of ours, under the name of the host's, which is to warn no second time.
        coroutine.close()
        close_call(call, None, GeneratorExit())


async def _await(call: Call, coroutine: Any) -> Any:
    """Finish a call whose plain function gave back a coroutine."""
    token = call.scope.attach()
    try:
        result = await coroutine
    except BaseException as error:
        _detach_late(call, token, error)
        close_call(call, None, error)
        raise
    detach(token)
    close_call(call, result)
    return result


def _detach_late(call: Call, token: Any, error: BaseException | None) -> None:
    """Detach after awaiting: who closes or drops a coroutine may do so in another context."""
    is_closed = isinstance(error, GeneratorExit)
    if not is_closed or spans.scope_of(otel_context.get_current()) is call.scope:
        detach(token)


def _trace_coroutine(plan: Plan, function: Callable[..., Any], owner: object) -> Callable[..., Any]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        call = open_call(plan, _whose(owner, args), args, kwargs)
        if call is None:
            return await function(*args, **kwargs)
        token = call.scope.attach()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            _detach_late(call, token, error)
            close_call(call, None, error)
            del call, token  # the error holds this frame for as long as the host keeps it
            raise
        detach(token)
        close_call(call, result)
        return result

    return traced


def _trace_generator(plan: Plan, function: Callable[..., Any], owner: object) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = function(*args, **kwargs)
        call = open_call(plan, _whose(owner, args), args, kwargs)
        if call is None:
            return (yield from inner)
        step = functools.partial(next, inner)
        while True:
            token = call.scope.attach()
            try:
                item = step()
            except StopIteration as end:
                detach(token)
                close_call(call, end.value)
                return end.value
            except BaseException as error:
                detach(token)
                close_call(call, None, error)
                del step  # what was thrown in holds this frame: a cycle, for the collector
                raise
            detach(token)
            try:
                sent = yield item
            except BaseException as thrown:  # noqa: BLE001 - handed on to the host's generator
                step = functools.partial(_throw, inner, thrown)
            else:
                step = functools.partial(inner.send, sent)

    return traced


def _throw(inner: Generator[Any, Any, Any], thrown: BaseException) -> Any:
    """Throw into a generator; a close that it accepts ends it, as the interpreter has it."""
    try:
        if isinstance(thrown, GeneratorExit):
            inner.close()
            raise thrown
        return inner.throw(thrown)
    finally:
        del thrown  # it holds this frame


def _trace_async_generator(
    plan: Plan, function: Callable[..., Any], owner: object
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        call = open_call(plan, _whose(owner, args), args, kwargs)
        step: Callable[[], Any] = inner.__anext__
        while True:
            token = None if call is None else call.scope.attach()
            try:
                item = await step()
            except StopAsyncIteration:
                _leave(call, token, None)
                return
            except BaseException as error:
                _leave(call, token, error)
                del step  # see _trace_generator
                raise
            if token is not None:
                detach(token)
            try:
                sent = yield item
            except BaseException as thrown:  # noqa: BLE001 - handed on to the host's generator
                step = functools.partial(_athrow, inner, thrown)
            else:
                step = functools.partial(inner.asend, sent)

    return traced


def _leave(call: Call | None, token: Any, error: BaseException | None) -> None:
    if call is not None:
        _detach_late(call, token, error)
        close_call(call, None, error)


async def _athrow(inner: AsyncGenerator[Any, Any], thrown: BaseException) -> Any:
    """Throw into an async generator; a close that it accepts ends it."""
    try:
        if isinstance(thrown, GeneratorExit):
            await inner.aclose()
            raise thrown
        return await inner.athrow(thrown)
    finally:
        del thrown  # it holds this frame


SELF: Final = object()
"""Stands for the first argument of an entry method: the object whose work it is."""


def _whose(owner: object, args: tuple[Any, ...]) -> object:
    """Return the object whose work a call is; None for a function, and for a call gone wrong."""
    if owner is not SELF:
        return owner
    return args[0] if args else None


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
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(trace_function(plan, target.__func__))
    if inspect.isclass(target):
        return _trace_class(plan, target)
    if inspect.isroutine(target) or isinstance(target, functools.partial):
        return trace_function(plan, target)
    claimed = adapters.wrap(target, plan.name, plan.role)
    if claimed is not None:
        return claimed
    if any(callable(getattr(target, name, None)) for name in ENTRY_METHODS):
        from orchtrace_otel.proxy import stand_in  # noqa: PLC0415 - wrapt takes long to load

        methods = {name: getattr(target, name, None) for name in ENTRY_METHODS}
        traced = {
            name: trace_function(plan, method, target)
            for name, method in methods.items()
            if callable(method)
        }
        return stand_in(target, traced, plan)
    msg = (
        f"@{plan.kind} needs something that can be called, or an object with one of "
        f"{', '.join(ENTRY_METHODS)}, got {type(target).__qualname__}; "
        "for a framework's object install its extra and see `orchtrace doctor`"
    )
    raise ConfigError(msg)


def _name_of(target: Any) -> str:
    """Return the name of something that was decorated without one."""
    if isinstance(target, (staticmethod, classmethod)):
        target = target.__func__
    while isinstance(target, functools.partial):
        target = target.func
    for name in (getattr(target, "__name__", None), getattr(target, "name", None)):
        if isinstance(name, str) and name:
            return name.strip("<>")
    return type(target).__name__


def _decorate(kind: str, target: Any, name: str | None, **facts: Any) -> Any:
    """Decorate `target`, or return the decorator where it was called with arguments."""
    if isinstance(target, str):
        if name is not None:
            msg = f"@{kind} takes one name, got {target!r} and name={name!r}"
            raise ConfigError(msg)
        target, name = None, target
    if name is not None and (not isinstance(name, str) or not name.strip()):
        msg = f"@{kind} needs a name that is a text with something in it, got {name!r}"
        raise ConfigError(msg)
    if target is None:
        return lambda target: _apply(Plan(kind, name or _name_of(target), **facts), target)
    return _apply(Plan(kind, name or _name_of(target), **facts), target)


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
    _check_text("agent", "role", role)
    return _decorate("agent", target, name, role=role)


@overload
def tool(name: str | None = None, /) -> Callable[[F], F]: ...
@overload
def tool(target: F, /, *, name: str | None = None) -> F: ...
def tool(target: Any = None, /, *, name: str | None = None) -> Any:
    """Make each call inside a run a tool call of the agent that is current.

    Args:
        target: What is decorated, or the tool's name.
        name: The tool's name where `target` is an object.

    Raises:
        ConfigError: If it cannot be traced, or the name is empty.
    """
    return _decorate("tool", target, name)


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
        task_id: What is asked; runs of one task can be compared.
        tags: Your own keys and values, texts both.
        reward: Called with what a run returned; gives the task's reward, a number,
            or several by component. What it raises costs the reward, not the run.

    Raises:
        ConfigError: If an argument does not hold what it must.
    """
    _check_text("team", "task_id", task_id)
    if reward is not None and not callable(reward):
        msg = f"@team needs a reward that can be called with the result, got {reward!r}"
        raise ConfigError(msg)
    if tags is not None and not isinstance(tags, Mapping):
        msg = f"@team needs tags to be a mapping of texts to texts, got {tags!r}"
        raise ConfigError(msg)
    for key, value in (tags or {}).items():
        _check_text("team", "a key of tags", key)
        _check_text("team", f"tags[{key!r}]", value)
    return _decorate("team", target, name, task_id=task_id, tags=tags, reward=reward)


def _check_text(kind: str, what: str, value: object) -> None:
    if value is not None and not (isinstance(value, str) and value):
        msg = f"@{kind} needs {what} to be a text with something in it, got {value!r}"
        raise ConfigError(msg)
