"""What is current in a block of the host's, such as that of `with extract(headers)`."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context

if TYPE_CHECKING:
    from opentelemetry.context import Context


class Block:
    """A context that is current in a block, which need not be left where it was entered.

    A block in the body of a generator is entered and left by whoever asks for its items, which
    may be other tasks and threads. Where it was not entered there is nothing to restore.

    Args:
        context: What is to be current.

    Example:
        >>> block = Block(otel_context.set_value("word", "here"))
        >>> otel_context.get_value("word")
        'here'
        >>> block.leave()
        >>> otel_context.get_value("word") is None
        True
    """

    __slots__ = ("_token",)

    def __init__(self, context: Context) -> None:
        self._token: Token[Context] = otel_context.attach(context)

    def leave(self) -> None:
        """Make current what was before."""
        with suppress(ValueError):
            self._token.var.reset(self._token)
