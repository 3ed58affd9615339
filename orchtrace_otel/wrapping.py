"""Functions of every kind, traced: what is attached is detached before anything is yielded."""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import CoroutineType, MethodType
from typing import Any, Final, cast

from opentelemetry import context as otel_context

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.calls import MARK, Plan, close_call, open_call
from orchtrace_otel.methods import ALWAYS
from orchtrace_otel.playback import hold_tool, refuse_stream
from orchtrace_otel.spans import Scope


class _Self:
    """Known by what it is, also in a process to which a class is shipped by its value."""

    def __reduce__(self) -> str:
        return "SELF"


SELF: Final = _Self()
"""Stands for the first argument of an entry method: the object whose work it is."""


def _whose(owner: object, args: tuple[Any, ...]) -> object:
    """Return the object whose work a call is; None for a function, and for a call gone wrong."""
    if owner is not SELF:
        return owner
    return args[0] if args else None


detach: Final = otel_context.detach


def trace_function(
    plan: Plan, function: Callable[..., Any], owner: object = None
) -> Callable[..., Any]:
    """Return `function` traced as `plan` says, of the same kind and signature."""
    if plan.kind == "tool":
        method = ALWAYS if owner is SELF else plan.method
        function = hold_tool(plan.name, function, is_safe=plan.replay_safe, method=method)
    if inspect.isasyncgenfunction(function):
        traced = _trace_async_generator(plan, function, owner)
    elif inspect.isgeneratorfunction(function):
        traced = _trace_generator(plan, function, owner)
        if _is_awaited(function):
            traced = types.coroutine(traced)
    elif inspect.iscoroutinefunction(function):
        traced = _trace_coroutine(plan, function, owner)
    else:
        traced = _trace_call(plan, function, owner)
    setattr(traced, MARK, plan)
    return traced


def _is_awaited(function: Any) -> bool:
    """Whether a generator function is a coroutine's, as `types.coroutine` makes them."""
    while isinstance(function, (functools.partial, MethodType)):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return bool(function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE)


_OF_ASYNCIO: Final = "_asyncio_future_blocking"
"""What asyncio tells its futures by."""
_SETTLED: Final = frozenset(
    id(kind) for kind in (type(None), str, dict, list, tuple, bool, int, float, bytes)
)
"""What most calls give back: asking these whether they are futures takes longer than to know.

By identity: a class whose class has an `__eq__` may have no hash.
"""


def _is_future(kind: type[object]) -> bool:
    """Whether objects of a class are futures, of asyncio or of a pool.

    Others that can be waited for, such as Dask's, stand for work elsewhere: to wait for one keeps
    that work from being given up, and its result would have to be fetched.
    """
    try:
        return issubclass(kind, Future) or hasattr(kind, _OF_ASYNCIO)
    except Exception:  # noqa: BLE001 - the class of a class of the host's has a lookup of its own
        return False


def _trace_call(plan: Plan, function: Callable[..., Any], owner: object) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        whose = None if owner is None else _whose(owner, args)
        call = open_call(plan, whose, args, kwargs, function)
        if call is None:
            return function(*args, **kwargs)
        token = None
        try:  # what is ours as well: an interrupt may come at any point
            token = call.attach()
            result = function(*args, **kwargs)
            detach(token)
            token = None
            # By type alone: asking a lazy result for its class would load it.
            kind = cast("type[object]", type(result))
            if id(kind) in _SETTLED:
                close_call(plan, call, result)
            elif kind is CoroutineType:
                return _awaited(plan, call, result)
            elif _is_future(kind):
                _close_with(plan, call, result)
            else:
                close_call(plan, call, result)
        except BaseException as error:
            if token is not None:
                detach(token)
            close_call(plan, call, None, error)
            del call, token  # the error holds this frame for as long as the host keeps it
            raise
        return result

    return traced


@guarded
def _close_with(plan: Plan, call: Scope, future: Any) -> None:
    """Close a call with the future that it gave back.

    One that is done, such as a kept result or a task that was eager and never had to wait, closes
    it here: asyncio calls back a turn of its loop later, and to await it takes none.
    """
    try:
        if future.done():
            _close_future(plan, call, future)
        else:
            future.add_done_callback(functools.partial(_close_future, plan, call))
    except Exception:
        close_call(plan, call, future)
        raise


@guarded
def _close_future(plan: Plan, call: Scope, future: Any) -> None:
    """Close a call whose future is done.

    What it holds is looked at where it is: a future of asyncio that was asked for its error no
    longer says that nobody has asked for it.
    """
    if future.cancelled():
        close_call(plan, call, None, _cancelled(future))
    else:
        error = getattr(future, "_exception", None)
        close_call(plan, call, getattr(future, "_result", None), error)


def _cancelled(future: object) -> BaseException:
    if isinstance(future, Future):
        return CancelledError()
    import asyncio  # noqa: PLC0415 - there already, where there is such a future

    return asyncio.CancelledError()


def _awaited(plan: Plan, call: Scope, coroutine: Any) -> Any:
    """Return a coroutine that finishes the call; one that nobody awaits ends the call too."""
    finishing: Any = _await(plan, call, coroutine)
    finishing.__name__, finishing.__qualname__ = coroutine.__name__, coroutine.__qualname__
    weakref.finalize(finishing, _forget, plan, call, coroutine).atexit = False
    return finishing


def _forget(plan: Plan, call: Scope, coroutine: Any) -> None:
    if not call.is_closed:
        # Python warns of ours, under the name of the host's, which is to warn no second time.
        coroutine.close()
        close_call(plan, call, None, GeneratorExit())


async def _await(plan: Plan, call: Scope, coroutine: Any) -> Any:
    """Finish a call whose plain function gave back a coroutine."""
    token = None
    try:
        token = call.attach()
        result = await coroutine
        detach(token)
        token = None
        close_call(plan, call, result)
    except BaseException as error:
        _detach_late(call, token, error)
        close_call(plan, call, None, error)
        del call, token  # see _trace_call
        raise
    return result


def _detach_late(call: Scope, token: Any, error: BaseException | None) -> None:
    """Detach after awaiting: who closes or drops a coroutine may do so in another context.

    Even one in which the call is current may be a copy of that in which it began.
    """
    if token is None:
        return
    if not isinstance(error, GeneratorExit):
        detach(token)
    elif spans.scope_of(otel_context.get_current()) is call:
        with suppress(ValueError):
            token.var.reset(token)


def _trace_coroutine(plan: Plan, function: Callable[..., Any], owner: object) -> Callable[..., Any]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        whose = None if owner is None else _whose(owner, args)
        call = open_call(plan, whose, args, kwargs, function)
        if call is None:
            return await function(*args, **kwargs)
        token = None
        try:
            token = call.attach()
            result = await function(*args, **kwargs)
            detach(token)
            token = None
            close_call(plan, call, result)
        except BaseException as error:
            _detach_late(call, token, error)
            close_call(plan, call, None, error)
            del call, token  # the error holds this frame for as long as the host keeps it
            raise
        return result

    return traced


def _trace_generator(plan: Plan, function: Callable[..., Any], owner: object) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        refuse_stream(plan)
        inner: Generator[Any, Any, Any] = function(*args, **kwargs)
        whose = None if owner is None else _whose(owner, args)
        call = open_call(plan, whose, args, kwargs, function)
        if call is None:
            return (yield from inner)
        step = functools.partial(next, inner)
        is_left = False
        while True:
            token = None
            try:
                token = call.attach()
                try:
                    item = step()
                except StopIteration as end:
                    detach(token)
                    token = None
                    close_call(plan, call, end.value, GeneratorExit() if is_left else None)
                    return end.value
                detach(token)
                token = None
            except BaseException as error:
                _leave(plan, call, token, error)
                # What was thrown in holds this frame: a cycle, for the collector; see _trace_call.
                del call, token, step
                raise
            try:
                sent = yield item
            except BaseException as thrown:  # noqa: BLE001 - handed on to the host's generator
                is_left = isinstance(thrown, GeneratorExit)
                step = functools.partial(_throw, inner, thrown)
            else:
                step = functools.partial(inner.send, sent)

    return traced


def _throw(inner: Generator[Any, Any, Any], thrown: BaseException) -> Any:
    """Throw into a generator; one that goes on though it is closed fails, as it would without us.

    What it returns instead is what `close` returns, from Python 3.13 on.
    """
    try:
        item = inner.throw(thrown)
        if isinstance(thrown, GeneratorExit):
            msg = "generator ignored GeneratorExit"
            raise RuntimeError(msg)  # noqa: TRY004 - what Python raises
        return item
    finally:
        del thrown  # it holds this frame


def _trace_async_generator(
    plan: Plan, function: Callable[..., Any], owner: object
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        refuse_stream(plan)
        inner = function(*args, **kwargs)
        whose = None if owner is None else _whose(owner, args)
        call = open_call(plan, whose, args, kwargs, function)
        step: Callable[[], Any] = inner.__anext__
        while True:
            token = None
            try:
                token = None if call is None else call.attach()
                try:
                    item = await step()
                except StopAsyncIteration:
                    _leave(plan, call, token, None)
                    return
                if token is not None:
                    detach(token)
                    token = None
            except BaseException as error:
                _leave(plan, call, token, error)
                del call, token, step  # see _trace_generator
                raise
            try:
                sent = yield item
            except BaseException as thrown:  # noqa: BLE001 - handed on to the host's generator
                step = functools.partial(athrow, inner, thrown)
            else:
                step = functools.partial(inner.asend, sent)

    return traced


def _leave(plan: Plan, call: Scope | None, token: Any, error: BaseException | None) -> None:
    if call is not None:
        _detach_late(call, token, error)
        close_call(plan, call, None, error)


async def athrow(inner: AsyncGenerator[Any, Any], thrown: BaseException) -> Any:
    """Throw into an async generator; a close that it accepts ends it.

    It may be closed already: a loop that ends closes this one and ours at once.
    """
    try:
        if isinstance(thrown, GeneratorExit):
            await inner.aclose()
            raise thrown
        return await inner.athrow(thrown)
    finally:
        del thrown  # it holds this frame
