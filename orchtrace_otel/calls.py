"""What one call of a decorated callable becomes: a plan beforehand, and its opening and close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry import context as otel_context

from orchtrace_otel import attributes as a
from orchtrace_otel import content, spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.content import gate
from orchtrace_otel.flow import Flow, Mark
from orchtrace_otel.spans import Activation, Run, Scope

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from orchtrace_otel.methods import Method

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
        replay_safe: Whether replays may call the tool again.
        method: How to tell the object from the arguments, where it is or may be a method.
    """

    kind: str
    name: str
    role: str | None = None
    task_id: str | None = None
    tags: Mapping[str, str] | None = None
    reward: Callable[[Any], float | Mapping[str, float]] | None = None
    replay_safe: bool = False
    method: Method | None = None


@guarded
def open_call(
    plan: Plan,
    owner: object,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    function: Callable[..., Any],
) -> Scope | None:
    """Open a call of `function`; None where nothing is to be traced, and it is called as it is."""
    if spans.tracing() is None:
        return None
    context = otel_context.get_current()
    scope = spans.scope_of(context)
    if scope is None or (scope.run.is_closed and not scope.run.is_remote):
        # Work that begins in a task that outlived its run is not that run's.
        scope = spans.join_run()
        if scope is None:
            return _open_run(plan, owner, args, kwargs, function)
    if not scope.run.is_recording or spans.is_suppressed(context):
        return None
    flow = scope.flow.here()
    caller = scope.activation
    if _is_open(plan, owner, scope, flow):
        return None
    if plan.kind == "tool":
        opened = spans.open_tool(caller, plan.name, edges=flow.take(), context=context)
        opened.source = flow
    else:
        opened = _open_agent(plan, owner, scope, flow, context)
    if gate.recorder is not None:
        _capture_whole(plan, opened, owner, args, kwargs, function)
    return opened


def _is_open(plan: Plan, owner: object, scope: Scope, flow: Flow) -> bool:
    """Whether this very call is open: of the same object, or as an adapter opened it.

    An adapter says by its plan that an activation is that function's. Frameworks make tools of
    functions, and call these inside: once, so that what a tool goes on to call under its name is a
    call of its own, as is what a decorated tool calls.
    """
    caller = scope.activation
    if plan.kind != "tool":
        return caller.owner is plan or (owner is not None and caller.owner is owner)
    if scope is caller or scope.source is not None or scope.written.get(a.TOOL_NAME) != plan.name:
        return False
    scope.source = flow
    return True


def _capture_whole(  # noqa: PLR0913 - as `_capture`
    plan: Plan,
    opened: Scope,
    owner: object,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    function: Callable[..., Any],
) -> None:
    """Keep what a call was given; an interrupt ends the call, of which nobody gets to know."""
    try:
        _capture(plan, opened, owner, args, kwargs, function)
    except BaseException as error:
        close_call(plan, opened, None, error)
        raise


@guarded
def _capture(  # noqa: PLR0913 - a call, and what it is of
    plan: Plan,
    scope: Scope,
    owner: object,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    function: Callable[..., Any],
) -> None:
    """Keep what a call was given, where content is on; its object is no part of that."""
    recorder = gate.active()
    if recorder is None:
        return
    names, count = places_of(function), len(args)
    if plan.method is not None:
        args, kwargs = plan.method.arguments(args, kwargs)
    elif args and owner is not None and args[0] is owner:
        args = args[1:]
    recorder.given(scope, args, kwargs, names[count - len(args) :])


_DEEPEST: Final = 100
"""Wrappers around a function that are looked through."""


def places_of(function: Any) -> tuple[str, ...]:
    """Return the names of the parameters that take what a function is given by place.

    Example:
        >>> from functools import partial
        >>> places_of(partial(lambda host, password, *more: None, "here"))
        ('password',)
        >>> places_of(print)
        ()
    """
    taken = 0
    for _ in range(_DEEPEST):
        kind = cast("type[object]", type(function))
        if kind is FunctionType and "__wrapped__" not in function.__dict__:
            code: CodeType = function.__code__
            return code.co_varnames[taken : code.co_argcount]
        if kind is MethodType:
            taken, function = taken + 1, function.__func__
        elif issubclass(kind, partial):
            taken, function = taken + len(function.args), function.func
        else:
            function = getattr(function, "__wrapped__", None)
    return ()


def _open_agent(
    plan: Plan, owner: object, scope: Scope, flow: Flow, context: Context
) -> Activation:
    name, caller = plan.name, scope.activation
    instance, is_new = caller.busy(name) if owner is None else caller.of_object(name, owner)
    announced = caller.expected(name) if caller.announced else None
    if announced is not None:
        opens = "begin"
        edges = [announced, *flow.drain()]
        if scope is not caller and flow.last is not announced[1]:
            edges.append(("causal", scope.opened))  # announced before the tool that begins it
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
    activation.source = flow
    return activation


def _open_run(
    plan: Plan,
    owner: object,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    function: Callable[..., Any],
) -> Scope | None:
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
    scope = run.root
    scope.source = None
    try:
        if plan.kind == "team" or not run.is_recording:
            scope.owner = owner
        else:
            scope = _open_agent(plan, owner, scope, scope.flow, scope.context)
        run.caller = scope
        if gate.recorder is not None:
            _capture(plan, scope, owner, args, kwargs, function)
    except BaseException as error:  # an interrupt: nobody gets to know of the run
        run.caller = scope
        close_call(plan, scope, None, error)
        raise
    return scope


@guarded
def close_call(
    plan: Plan, scope: Scope, result: object, error: BaseException | None = None
) -> None:
    """Close a call, once, that came back with `result` or ended with `error`."""
    run = scope.run
    try:
        if not scope.is_closed:
            _close_scope(plan, scope, result, error)
    finally:
        if run.caller is scope:
            _close_run(run, plan, result, error)
            run.caller = None


def _close_scope(plan: Plan, scope: Scope, result: object, error: BaseException | None) -> None:
    flow = scope.source
    if gate.recorder is not None and error is None:
        gate.recorder.came(scope, result)
    if flow is not None:
        status = "ok" if error is None else spans.outcome(error)[0]
        scope.end(status, (), error if status == "error" else None)
        if error is not None:
            scope.let_go()
        closed = scope.closed
        if isinstance(scope, Activation):
            flow.returned(closed)
            _give_back(plan, scope, closed, result, error)
        else:
            flow.returned(closed, "tool_dependency")


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


def _close_run(run: Run, plan: Plan, result: object, error: BaseException | None) -> None:
    """Stop the run that a call began, with the reward that its result earns."""
    status, reason = spans.outcome(error)
    run.root.owner = None
    try:
        if plan.reward is not None and error is None:
            from orchtrace_otel.rewards.given import given_rewards  # noqa: PLC0415 - who gives any

            for reward in given_rewards(plan.reward, result, run.flag):
                run.record(reward)
    finally:  # an interrupt that comes in the middle of it is the host's
        run.close(
            stop_reason=reason,
            stop_detail=None if error is None else spans.error_type(error),
            status=status,
            error=error if status == "error" else None,
        )
