"""AutoGen's tools in replays: recorded by `record()`, played back, called again if safe.

A tool whose function is decorated with `@orchtrace.tool` sees to it itself; here are
all others, which count as not safe.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from autogen_core.tools import TextResultContent

from orchtrace_autogen import _framework as f
from orchtrace_otel.adapter import Patches, Shared
from orchtrace_otel.calls import MARK, Plan
from orchtrace_otel.model import plain_text
from orchtrace_otel.playback import Playback, playback, recording, refuse_stream

_HANDOFFS: Final = "autogen_agentchat.base._handoff"


def keep_run(wrapped: Any, tool: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Wrap `BaseTool.run_json`: keeps what it gives back, where that is recorded."""
    if recording() is None or is_free(tool):
        return wrapped(*args, **kwargs)
    return _keep(
        plain_text(tool.name), (_given(args, kwargs, 0, "args"),), wrapped(*args, **kwargs)
    )


def keep_call(wrapped: Any, workbench: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Wrap `Workbench.call_tool`, where its tools are none of AutoGen's own."""
    if recording() is None or _is_static(workbench):
        return wrapped(*args, **kwargs)
    name = plain_text(args[0] if args else kwargs.get("name"))
    return _keep(name, (_given(args, kwargs, 1, "arguments"),), wrapped(*args, **kwargs))


async def _keep(name: str, given: tuple[Any, ...], work: Any) -> Any:
    kept = recording()
    try:
        result = await work
    except Exception as error:
        if kept is not None:
            kept.keep(name, given, {}, None, error)
        raise
    if kept is not None:
        kept.keep(name, given, {}, result)
    return result


def _given(args: Any, kwargs: Mapping[str, Any], place: int, name: str) -> dict[str, Any]:
    given: Any = args[place] if len(args) > place else kwargs.get(name)
    return {**(given or {})}


def is_free(tool: Any) -> bool:
    """Whether a tool is held back by its decorator, or only says who is next."""
    function = getattr(tool, "_func", None)
    return hasattr(function, MARK) or getattr(function, "__module__", None) == _HANDOFFS


def _is_static(workbench: Any) -> bool:
    return any(kind.__name__ == "StaticWorkbench" for kind in type(workbench).__mro__)


class HeldWorkbench:
    """A workbench of others' tools, in a replay: only what was recorded comes back."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._played = playback() or Playback(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def call_tool(self, name: str, arguments: Any = None, *_: Any, **__: Any) -> Any:
        """Return what the tool gave for these arguments.

        Never raises: an assistant would wait for the result for ever.
        """
        given: dict[str, Any] = {**(arguments or {})}
        try:
            return self._played.result(name, (given,), {})
        except Exception as error:  # noqa: BLE001 - as AutoGen's own workbenches do
            return f.ToolResult(
                name=name, result=[TextResultContent(content=str(error))], is_error=True
            )


def hold_workbenches(agent: Any) -> None:
    """Put held ones in the place of an agent's workbenches; the agent is a replay's own."""
    benches: Any = getattr(agent, "_workbench", None)
    if benches:
        agent._workbench = [  # noqa: SLF001 - AutoGen has no public name for it
            one if _is_static(one) else HeldWorkbench(one) for one in benches
        ]


async def _play_run(wrapped: Any, tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    played = playback()
    if played is None or is_free(tool):
        return await wrapped(*args, **kwargs)
    return played.result(plain_text(tool.name), (_given(args, kwargs, 0, "args"),), {})


def _play_stream(wrapped: Any, tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if playback() is not None and not is_free(tool):
        refuse_stream(Plan("tool", plain_text(tool.name)))
    return wrapped(*args, **kwargs)


def _is_live(_: logging.LogRecord) -> bool:
    """Whether a record is of the host's own work: replays are none of its logs' business."""
    return playback() is None


_LOGGERS: Final = (
    "autogen_agentchat",
    "autogen_agentchat.events",
    "autogen_core",
    "autogen_core.events",
    "autogen_core.trace",
)


@contextmanager
def _held_back() -> Generator[None, None, None]:
    patches = Patches()
    patches.wrap(f.BaseTool, "run_json", _play_run)
    patches.wrap(f.BaseStreamTool, "run_json_stream", _play_stream)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_live)
    try:
        yield
    finally:
        patches.undo()
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(_is_live)


held_tools: Final = Shared(_held_back).held
"""Holds all tools back in replays, and AutoGen's logs, however many run beside each other; outside
of replays they stay as they are."""
