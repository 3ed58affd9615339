"""What a tool's MCP server asks the host's model for, which is called sampling.

A workbench talks with its server in a task of its own, which lives as long as the workbench:
what is current there is whatever was when it was started. So a question of the server's is asked
under the call that the server works on.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Awaitable, MutableMapping
from typing import Any, Final

from opentelemetry.context import Context, get_current

from orchtrace_autogen._models import unseen
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Patches
from orchtrace_otel.spans import Block, scope_of

MODULE: Final = "autogen_ext.tools.mcp._actor"
_CLASS: Final = "McpSessionActor"
_CALLBACK: Final = "_sampling_callback"


class SamplingHooks:
    """Wrappers of the task in which a workbench talks with its MCP server."""

    def __init__(self) -> None:
        self._patches: Patches | None = None
        self._served: MutableMapping[Any, dict[object, Context]] = weakref.WeakKeyDictionary()

    def install(self, patches: Patches) -> None:
        """Wrap it when it is there, with `patches`."""
        self._patches = patches

    @guarded
    def adopt(self, _kind: type[Any]) -> None:
        """Wrap it once AutoGen's workbench of MCP is loaded; before 0.7 servers could not ask."""
        actor: Any = getattr(sys.modules.get(MODULE), _CLASS, None)
        if self._patches is None or not hasattr(actor, _CALLBACK):
            return
        patches, self._patches = self._patches, None
        patches.wrap(actor, "call", self.call)
        patches.wrap(actor, _CALLBACK, self.asks)

    async def call(self, wrapped: Any, actor: Any, args: Any, kwargs: Any) -> Any:
        """Follow what a server is asked for: what comes back is yet to be awaited."""
        work = await wrapped(*args, **kwargs)
        is_tool = (args[0] if args else kwargs.get("type")) == "call_tool"
        return self._serve(actor, work) if is_tool and hasattr(work, "__await__") else work

    async def _serve(self, actor: Any, work: Awaitable[Any]) -> Any:
        served, call = self._served.setdefault(actor, {}), object()
        served[call] = get_current()
        try:
            return await work
        finally:
            del served[call]

    async def asks(self, wrapped: Any, actor: Any, args: Any, kwargs: Any) -> Any:
        """Let a server's question be asked under the call that it works on."""
        block = Block(self._asking(actor) or get_current())
        try:
            return await wrapped(*args, **kwargs)
        finally:
            block.leave()

    @guarded
    def _asking(self, actor: Any) -> Context:
        """Return the context of the call that a server works on, of one agent's calls the latest.

        A server does not say for which of its calls it asks: of calls of several agents none is
        known to be the one.
        """
        served = [*self._served.get(actor, {}).values()]
        scopes = [scope_of(context) for context in served]
        owners = {None if scope is None else id(scope.activation) for scope in scopes}
        return served[-1] if len(owners) == 1 else unseen(get_current())
