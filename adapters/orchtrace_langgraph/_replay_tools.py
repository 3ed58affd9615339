"""LangChain's tools in replays: recorded by `record()`, played back, called again if safe.

A tool whose function is decorated with `@orchtrace.tool` sees to it itself; here are
all others, which count as not safe.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from orchtrace_langgraph import _content
from orchtrace_langgraph._framework import find
from orchtrace_otel.adapter import Patches, Shared
from orchtrace_otel.calls import MARK
from orchtrace_otel.playback import playback, recording

_HANDOFF: Final = "__handoff_destination"


def keep_run(wrapped: Callable[..., Any], tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Wrap `BaseTool.run`: keeps what it gives back, where that is recorded."""
    kept = recording()
    if kept is None or _is_free(tool):
        return wrapped(*args, **kwargs)
    given = _given(args, kwargs)
    try:
        result = wrapped(*args, **kwargs)
    except Exception as error:
        kept.keep(tool.name, given, {}, None, error)
        raise
    kept.keep(tool.name, given, {}, result)
    return result


def keep_arun(wrapped: Callable[..., Any], tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Wrap `BaseTool.arun`, as `keep_run` wraps its twin."""
    kept = recording()
    if kept is None or _is_free(tool):
        return wrapped(*args, **kwargs)
    return _keep_arun(kept, wrapped, tool, args, kwargs)


async def _keep_arun(kept: Any, wrapped: Any, tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    given = _given(args, kwargs)
    try:
        result = await wrapped(*args, **kwargs)
    except Exception as error:
        kept.keep(tool.name, given, {}, None, error)
        raise
    kept.keep(tool.name, given, {}, result)
    return result


def _play_run(wrapped: Callable[..., Any], tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    played = playback()
    if played is None or _is_free(tool):
        return wrapped(*args, **kwargs)
    return _addressed(played.result(tool.name, _given(args, kwargs), {}), kwargs)


def _play_arun(wrapped: Callable[..., Any], tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if playback() is None or _is_free(tool):
        return wrapped(*args, **kwargs)
    return _aplay(tool, args, kwargs)


async def _aplay(tool: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return _play_run(_never, tool, args, kwargs)


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError


def _given(args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    given = args[0] if args else kwargs.get("tool_input")
    return (_content.arguments(given, None),)


def _addressed(result: Any, kwargs: dict[str, Any]) -> Any:
    """Return an answer to the call that asked now; that of the recorded run had another id."""
    call_id = kwargs.get("tool_call_id")
    if call_id is None or not hasattr(result, "tool_call_id"):
        return result
    return result.model_copy(update={"tool_call_id": call_id})


def _is_free(tool: Any) -> bool:
    """Whether a tool is held back by its decorator, or only says who is next."""
    if _HANDOFF in (getattr(tool, "metadata", None) or {}):
        return True
    names = ("func", "coroutine", "_run", "_arun")  # a function's, or of a class of its own
    return any(hasattr(getattr(tool, name, None), MARK) for name in names)


@contextmanager
def _held_back() -> Generator[None, None, None]:
    patches = Patches()
    tools = find("langchain_core.tools:BaseTool")
    patches.wrap(tools, "run", _play_run)
    patches.wrap(tools, "arun", _play_arun)
    try:
        yield
    finally:
        patches.undo()


held_tools: Final = Shared(_held_back).held
"""Holds all tools back in replays, however many run beside each other; outside of replays they
stay as they are."""
