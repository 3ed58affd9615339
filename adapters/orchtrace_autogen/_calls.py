"""Following a call of the host: a coroutine, or a stream that is current step by step."""

from __future__ import annotations

import functools
import weakref
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from contextvars import Token
from typing import Any

from opentelemetry.context import Context, attach, detach

from orchtrace_otel.wrapping import athrow

Function = Callable[..., Any]
Opener = Callable[[], "Call | None"]


class Call:
    """One call that is traced, from its opening to its close.

    Its methods must not raise: they run in the middle of the host's.

    Attributes:
        context: The OTel context under which the host's code runs.
    """

    __slots__ = ("context",)

    def __init__(self, context: Context) -> None:
        self.context = context

    def attach(self) -> Token[Context]:
        """Make it current for the task that asks; never across a yield."""
        return attach(self.context)

    def seen(self, item: Any, /) -> None:
        """Look at an item of a stream before its consumer gets it."""

    def left(self) -> None:
        """Know that nobody can read on: Python closes a stream only when the event loop gets to it.

        By then who began it may be over, and so its run.
        """

    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End what was opened, with the result or the last item, or an error."""

    def give_up(self) -> None:
        """End it though it goes on: nobody waits for it any more."""
        self.close(None, CancelledError())


def follow(open_call: Opener, work: Any) -> Any:
    """Await the host's coroutine as a call that is open, and current, meanwhile.

    What the host gives back though it was asked for something to await stays as it is.
    """
    return _follow(open_call, work) if hasattr(work, "__await__") else work


async def _follow(open_call: Opener, work: Awaitable[Any]) -> Any:
    call = open_call()
    if call is None:
        return await work
    token = call.attach()
    try:
        result = await work
    except BaseException as error:
        _restore(token, error)
        call.close(None, error)
        del call, token, open_call  # the error holds this frame for as long as the host keeps it
        raise
    detach(token)
    call.close(result, None)
    return result


def drive(open_call: Opener, inner: Any) -> Any:
    """Hand on the host's stream; the call is current during each step, never between.

    The call opens with the first step: a stream that nobody reads is no call. What is
    no asynchronous generator stays as it is, since the host may know it as something else.
    """
    stream: Any = inner
    if not isinstance(inner, AsyncGenerator):
        return inner
    reader = _Reader()
    driven = _drive(open_call, stream, reader)
    reader.here = weakref.ref(driven, reader.gone)
    return driven


class _Reader:
    """Who reads a stream, for as long as somebody has it.

    Attributes:
        call: The call that it is, while it is open.
        here: The stream; in its own frame, as long as it lives.
    """

    __slots__ = ("call", "here")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.here: weakref.ref[Any] | None = None

    def gone(self, _: object) -> None:
        """Tell the call that nobody can read on."""
        if self.call is not None:
            self.call.left()


async def _drive(
    open_call: Opener, inner: AsyncGenerator[Any, Any], reader: _Reader
) -> AsyncGenerator[Any, Any]:
    call = reader.call = open_call()
    step: Function = inner.__anext__
    item: Any = None
    left: GeneratorExit | None = None
    while True:
        token = None if call is None else call.attach()
        try:
            item = await step()
        except StopAsyncIteration:
            reader.call = None
            _leave(call, token, item, None)
            return
        except BaseException as error:
            # What a stream does after its consumer left does not change that it left.
            reader.call = None
            _leave(call, token, item, left or error)
            # What was thrown in holds this frame, which is a cycle; see _follow.
            del call, token, open_call, item, left, step
            raise
        if call is not None and token is not None:
            detach(token)
            call.seen(item)
        try:
            sent = yield item
        except BaseException as thrown:  # noqa: BLE001 - handed on to the host's stream
            left = thrown if isinstance(thrown, GeneratorExit) else None
            step = functools.partial(athrow, inner, thrown)
        else:
            step = functools.partial(inner.asend, sent)


def _leave(
    call: Call | None, token: Token[Context] | None, item: Any, error: BaseException | None
) -> None:
    if call is not None and token is not None:
        _restore(token, error)
        call.close(item, error)


def _restore(token: Token[Context], error: BaseException | None) -> None:
    """Make current what was before.

    A coroutine that is thrown away is closed wherever that happens; in another context than
    that in which it began there is nothing to restore.
    """
    if not isinstance(error, GeneratorExit):
        detach(token)
        return
    with suppress(ValueError):
        token.var.reset(token)
