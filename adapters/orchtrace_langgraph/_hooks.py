"""Where the adapter takes part in LangGraph: wrappers of the Pregel loop and its runner.

Each wrapper calls the host's own function, hands its result or its exception on as the
same object, and does its work in guarded functions before or after.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from opentelemetry import context as otel_context

from orchtrace_langgraph import _callbacks, _entry, _pauses, _runs, _tasks
from orchtrace_langgraph._beside import innermost
from orchtrace_langgraph._decisions import chose
from orchtrace_langgraph._framework import find
from orchtrace_langgraph._handoffs import gave, hand_over
from orchtrace_langgraph._retries import RESET, RETRY, Retries
from orchtrace_langgraph._tasks import Task
from orchtrace_langgraph._tools import arun_tool, run_tool
from orchtrace_langgraph._turns import (
    agenerate,
    astart_model,
    end_model,
    fail_model,
    start_model,
)
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.adapter import Patches, Wrapper
from orchtrace_otel.threads import hand_out_together

Wrapped: TypeAlias = Callable[..., Any]
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]

_PLAIN: Final[type[Any]] = dict
"""Of what nodes return most, where nothing says where they go; compared by identity alone."""


def enter_loop(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `SyncPregelLoop.__enter__`: opens a run of the graph."""
    run = _entry.begin(loop)
    _entry.note(loop, run)
    try:
        entered = wrapped(*args, **kwargs)
    except BaseException as error:
        _end(loop, error)
        raise
    if run is not None:
        run.entered(loop)
    return entered


def exit_loop(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `SyncPregelLoop.__exit__`: closes the run, after the loop has settled."""
    try:
        result = wrapped(*args, **kwargs)
    except BaseException as error:
        _end(loop, error)
        raise
    _end(loop, args[1])
    return result


async def aenter_loop(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `AsyncPregelLoop.__aenter__`: opens a run of the graph."""
    run = _entry.begin(loop)
    _entry.note(loop, run)
    try:
        entered = await wrapped(*args, **kwargs)
    except BaseException as error:
        _end(loop, error)
        raise
    if run is not None:
        run.entered(loop)
    return entered


async def aexit_loop(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `AsyncPregelLoop.__aexit__`: closes the run, after the loop has settled."""
    try:
        result = await wrapped(*args, **kwargs)
    except BaseException as error:
        _end(loop, error)
        raise
    _end(loop, args[1])
    return result


def _end(loop: Any, error: BaseException | None) -> None:
    run = _entry.of(loop)
    if run is not None:
        if not _runs.GraphRun.is_followed:
            run.leave_out()
        _entry.note(loop, None)
        run.end(loop, error)


def tick(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `PregelLoop.tick`: finds the causes of the tasks it prepared."""
    goes_on = wrapped(*args, **kwargs)
    if goes_on:
        run = _entry.of(loop)
        if run is not None:
            run.plan(loop)
    return goes_on


def after_tick(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `PregelLoop.after_tick`: notes who wrote what, before the writes are applied."""
    run = _entry.of(loop)
    if run is not None:
        run.follow(loop)
    return wrapped(*args, **kwargs)


def match_cached(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `SyncPregelLoop.match_cached_writes`: takes in tasks that need not run."""
    matched = wrapped(*args, **kwargs)
    if matched:
        _skip(loop, matched)
    return matched


async def amatch_cached(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `AsyncPregelLoop.amatch_cached_writes`: takes in tasks that need not run."""
    matched = await wrapped(*args, **kwargs)
    if matched:
        _skip(loop, matched)
    return matched


def _skip(loop: Any, hosts: Any) -> None:
    run = _entry.of(loop)
    if run is not None:
        run.skipped(hosts)


def put_checkpoint(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `PregelLoop._put_checkpoint`, where checkpoints are to carry their link."""
    run = _entry.of(loop)
    if run is not None:
        run.carry(loop, args[0] if args else kwargs["metadata"])
    return wrapped(*args, **kwargs)


def acall(wrapped: Wrapped, _: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `_acall`: notes where a task is called, which an asyncio task of its own takes in."""
    before = _tasks.CALLING.set(_calling())
    try:
        return wrapped(*args, **kwargs)
    finally:
        _tasks.CALLING.reset(before)


_calling: Final = guarded(_tasks.place)


def accept_push(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `PregelLoop.accept_push`: takes in a called task, unless it need not run again."""
    pushed = wrapped(*args, **kwargs)
    if pushed is not None and not pushed.writes:
        _called(loop, pushed, args, kwargs)
    return pushed


@guarded
def _called(loop: Any, pushed: Any, args: Args, kwargs: Kwargs) -> None:
    run = _entry.of(loop)
    if run is not None and not spans.is_suppressed(otel_context.get_current()):
        run.called(pushed, args[0] if args else kwargs["task"])


def schedule_error_handler(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `SyncPregelLoop.schedule_error_handler`: takes in the handler's task."""
    scheduled = wrapped(*args, **kwargs)
    if scheduled is not None:
        _handles(loop, scheduled, args, kwargs)
    return scheduled


async def aschedule_error_handler(wrapped: Wrapped, loop: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `AsyncPregelLoop.aschedule_error_handler`: takes in the handler's task."""
    scheduled = await wrapped(*args, **kwargs)
    if scheduled is not None:
        _handles(loop, scheduled, args, kwargs)
    return scheduled


@guarded
def _handles(loop: Any, scheduled: Any, args: Args, kwargs: Kwargs) -> None:
    run = _entry.of(loop)
    if run is not None:
        run.handles(scheduled, args[0] if args else kwargs["failed_task"])


def run_task(wrapped: Wrapped, _: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `run_with_retry`: opens and closes the activation of a task."""
    task = _tasks.waiting.pop(id(args[0]), None) if args else None
    if task is None:
        return wrapped(*args, **kwargs)
    entered = _tasks.enter(task)
    try:
        result = wrapped(*args, **kwargs)
    except BaseException as error:
        _tasks.leave(task, entered, error)
        del task, entered  # the error holds this frame for as long as the host keeps it
        raise
    if result is not None and (type(result) is not _PLAIN or task.known.is_worker):
        gave(task, result)
    if task.handoffs is not None:
        hand_over(task, args[0])
    _tasks.leave(task, entered, None)
    return result


def arun_task(wrapped: Wrapped, _: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `arun_with_retry`, as `run_task` wraps its twin."""
    task = _tasks.waiting.pop(id(args[0]), None) if args else None
    if task is None:
        return wrapped(*args, **kwargs)
    return _arun_task(task, wrapped, args, kwargs)


async def _arun_task(task: Task, wrapped: Wrapped, args: Args, kwargs: Kwargs) -> Any:
    entered = _tasks.enter(task)
    try:
        result = await wrapped(*args, **kwargs)
    except BaseException as error:
        _tasks.leave(task, entered, error)
        del task, entered  # the error holds this frame for as long as the host keeps it
        raise
    if result is not None and (type(result) is not _PLAIN or task.known.is_worker):
        gave(task, result)
    if task.handoffs is not None:
        hand_over(task, args[0])
    _tasks.leave(task, entered, None)
    return result


async def arun_timed(wrapped: Wrapped, _: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `_arun_with_timeout`: a try that is out of time, or cancelled, is left running."""
    try:
        return await wrapped(*args, **kwargs)
    except (Exception, CancelledError):
        _tasks.abandon(_tasks.here())
        raise


async def consume(wrapped: Wrapped, _: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `_consume_aiter`: takes in what a node gave that is streamed, as under `astream_events`.

    Its task does not say it then.
    """
    result = await wrapped(*args, **kwargs)
    task = _tasks.here()
    if task is not None and result is not None:
        gave(task, result)
    return result


def finish_branch(wrapped: Wrapped, branch: Any, args: Args, kwargs: Kwargs) -> Any:
    """Wrap `BranchSpec._finish`: notes what a router chose."""
    result = wrapped(*args, **kwargs)
    chose(branch, args[2] if len(args) > 2 else kwargs["result"])  # noqa: PLR2004
    return result


_LOOPS: Final = "langgraph.pregel._loop"
_CALLBACKS: Final = "langchain_core.callbacks.manager"

# Owner, attribute, wrapper, and whether older versions are known to lack it.
HOOKS: Final[tuple[tuple[str, str, Wrapper, bool], ...]] = (
    (f"{_LOOPS}:SyncPregelLoop", "__enter__", enter_loop, False),
    (f"{_LOOPS}:SyncPregelLoop", "__exit__", exit_loop, False),
    (f"{_LOOPS}:AsyncPregelLoop", "__aenter__", aenter_loop, False),
    (f"{_LOOPS}:AsyncPregelLoop", "__aexit__", aexit_loop, False),
    (f"{_LOOPS}:PregelLoop", "tick", tick, False),
    (f"{_LOOPS}:PregelLoop", "after_tick", after_tick, False),
    (f"{_LOOPS}:PregelLoop", "accept_push", accept_push, False),
    ("langgraph.pregel._runner", "_acall", acall, False),
    (f"{_LOOPS}:SyncPregelLoop", "match_cached_writes", match_cached, False),
    (f"{_LOOPS}:AsyncPregelLoop", "amatch_cached_writes", amatch_cached, False),
    (f"{_LOOPS}:SyncPregelLoop", "schedule_error_handler", schedule_error_handler, True),
    (f"{_LOOPS}:AsyncPregelLoop", "aschedule_error_handler", aschedule_error_handler, True),
    ("langgraph.pregel._runner", "run_with_retry", run_task, False),
    ("langgraph.pregel._runner", "arun_with_retry", arun_task, False),
    ("langgraph._internal._runnable", "_consume_aiter", consume, False),
    ("langgraph.graph._branch:BranchSpec", "_finish", finish_branch, False),
    ("langchain_core.runnables:RunnableParallel", "invoke", hand_out_together, False),
    ("langchain_core.tools:BaseTool", "run", run_tool, False),
    ("langchain_core.tools:BaseTool", "arun", arun_tool, False),
    (f"{_CALLBACKS}:CallbackManager", "on_chat_model_start", start_model, False),
    (f"{_CALLBACKS}:CallbackManager", "on_llm_start", start_model, False),
    (f"{_CALLBACKS}:CallbackManagerForLLMRun", "on_llm_end", end_model, False),
    (f"{_CALLBACKS}:CallbackManagerForLLMRun", "on_llm_error", fail_model, False),
    (f"{_CALLBACKS}:AsyncCallbackManager", "on_chat_model_start", astart_model, False),
    (f"{_CALLBACKS}:AsyncCallbackManager", "on_llm_start", astart_model, False),
    (f"{_CALLBACKS}:AsyncCallbackManagerForLLMRun", "on_llm_end", end_model, False),
    (f"{_CALLBACKS}:AsyncCallbackManagerForLLMRun", "on_llm_error", fail_model, False),
    ("langchain_core.language_models:BaseChatModel", "agenerate", agenerate, False),
)

# The loop has these in hand while it runs: a run ends though the hooks were taken out meanwhile.
_OUTLIVES: Final = (exit_loop, aexit_loop)

# Without one of these the others are of no use.
_CORE: Final = (enter_loop, exit_loop, aenter_loop, aexit_loop, tick, run_task, arun_task)

# What takes their place, beside the hooks into LangChain.
_FALLBACK: Final[tuple[tuple[str, str, Wrapper, bool], ...]] = (
    (f"{_CALLBACKS}:CallbackManager", "on_chain_start", _callbacks.start, False),
    (f"{_CALLBACKS}:CallbackManagerForChainRun", "on_chain_end", _callbacks.end, False),
    (f"{_CALLBACKS}:CallbackManagerForChainRun", "on_chain_error", _callbacks.fail, False),
    (f"{_CALLBACKS}:AsyncCallbackManager", "on_chain_start", _callbacks.astart, False),
    (f"{_CALLBACKS}:AsyncCallbackManagerForChainRun", "on_chain_end", _callbacks.end, False),
    (f"{_CALLBACKS}:AsyncCallbackManagerForChainRun", "on_chain_error", _callbacks.fail, False),
)

_OUTCOMES: Final = {
    "GraphInterrupt": ("paused", "paused"),
    "GraphDrained": ("paused", "external"),
    "GraphBubbleUp": ("ok", "handoff"),
    "GraphRecursionError": ("error", "max_steps"),
}


def install(patches: Patches, *, links_checkpoints: bool) -> None:
    """Put every wrapper in; one that finds nothing to wrap is left out, with one warning.

    Args:
        patches: What takes them out again.
        links_checkpoints: Whether checkpoints name the run that wrote them.
    """
    errors = find("langgraph.errors")
    _runs.GraphRun.is_exact = _runs.GraphRun.is_followed = True
    spans.keepers.append(innermost)
    spans.outcomes.update(
        {getattr(errors, name): end for name, end in _OUTCOMES.items() if hasattr(errors, name)}
    )
    retries = Retries(tells_begin=hasattr(find(RETRY), RESET))
    hooks: list[tuple[str, str, Wrapper, bool]] = [
        *HOOKS,
        (RETRY, "_should_retry_on", retries.may_retry, False),
        (RETRY, RESET, retries.begin, True),
        (RETRY, "_arun_with_timeout", arun_timed, True),
    ]
    if links_checkpoints:
        hooks.append((f"{_LOOPS}:PregelLoop", "_put_checkpoint", put_checkpoint, False))
    lacking = next((f"{o}.{n}" for o, n, w, _ in hooks if w in _CORE and not _has(o, n)), None)
    if lacking is not None:
        hooks = [*_FALLBACK, *(hook for hook in HOOKS if hook[0].startswith("langchain_core"))]
        warn_once(
            lacking,
            "this version of LangGraph has no %s; graphs are traced from callbacks, "
            "with causes that are inferred",
            lacking,
        )
    for owner, name, wrapper, may_lack in hooks:
        try:
            patches.wrap(find(owner), name, wrapper, outlives=wrapper in _OUTLIVES)
        except (ImportError, AttributeError):
            if wrapper is after_tick:
                _runs.GraphRun.is_exact = False
            if not may_lack:
                warn_once(
                    f"{owner}.{name}",
                    "this version of LangGraph has no %s.%s; what only it tells is not traced",
                    owner,
                    name,
                )


def _has(owner: str, name: str) -> bool:
    try:
        return hasattr(find(owner), name)
    except (ImportError, AttributeError):
        return False


def forget() -> None:
    """Take back what `install` told the core."""
    _callbacks.forget()
    _runs.GraphRun.is_followed = False
    spans.keepers.remove(innermost)
    errors = find("langgraph.errors")
    for name in _OUTCOMES:
        if hasattr(errors, name):
            spans.outcomes.pop(getattr(errors, name), None)
    _pauses.forget()
