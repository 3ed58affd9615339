"""LLM calls as turns.

Every way of calling a model in LangChain (plain, batched, streamed) asks the callback
managers to tell that it starts and how it ended, whether or not there is a handler to
be told. The wrappers sit there: a handler of our own would be seen by users in their
configuration, and would make the managers do work that they save without one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from opentelemetry import context as otel_context

from orchtrace_langgraph import _callbacks
from orchtrace_langgraph._beside import context_in
from orchtrace_langgraph._content import fields, turn_closes, turn_opens
from orchtrace_langgraph._open_turns import BEGUN, Turn, give_up, note, take, turns
from orchtrace_langgraph._tasks import CURRENT
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.content import gate
from orchtrace_otel.spans import Activation, Interval, Scope, Value

if TYPE_CHECKING:
    from opentelemetry.context import Context

_MOST_CALLS: Final = 4_096
"""Tool calls that a turn asked for and that no tool has answered yet."""

_MOST_ALIKE: Final = 100
"""Turns of a run that asked for tool calls of one id."""

_asked: Final[OrderedDict[tuple[str, str], list[Asked]]] = OrderedDict()
"""Run and id of a tool call to what the turns that asked for one of that id asked for.

Some servers count the calls of each answer from 0.
"""


class Asked:
    """The tool calls that one turn asked for.

    Attributes:
        turn: Span id of the turn.
        places: Span ids of the activation that asked, and of the one around it.
        answers: Ids of the events that answered so far. What one turn asks for at once
            does not depend on each other, in whatever order it is done.
        names: Names of the arguments of each call, by its id, while content is on.
    """

    __slots__ = ("answers", "names", "places", "turn")

    def __init__(self, turn: str, places: tuple[str, str]) -> None:
        self.turn = turn
        self.places = places
        self.answers: set[str] = set()
        self.names: dict[str, tuple[str, ...]] = {}


def asked_for(call_id: str, caller: Activation) -> Asked | None:
    """Return what the turn asked for that asked for a call of a tool, if it is known."""
    found = _asked.get((caller.run.id, call_id))
    if found is None or len(found) == 1:
        return None if found is None else found[0]
    own, around = _places(caller)
    near = [one for one in found if own in one.places or around in one.places]
    nearest = [one for one in near if one.places[0] == own]
    return (nearest or near or found)[-1]


def _places(activation: Activation) -> tuple[str, str]:
    around = activation.parent
    return activation.span_id, "" if around is None else around.span_id


def start_model(
    wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap `CallbackManager.on_chat_model_start` and `on_llm_start`: opens turns."""
    managers = wrapped(*args, **kwargs)
    context = otel_context.get_current()
    scope = spans.scope_of(context)
    if scope is not None or _callbacks.tasks:
        for place, manager in enumerate(managers):
            _begin(manager, scope, context, args, kwargs, place)
    return managers


async def astart_model(
    wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap the same of `AsyncCallbackManager`."""
    managers = await wrapped(*args, **kwargs)
    context = otel_context.get_current()
    scope = spans.scope_of(context)
    if scope is not None or _callbacks.tasks:
        for place, manager in enumerate(managers):
            _begin(manager, scope, context, args, kwargs, place)
    return managers


def end_model(
    wrapped: Callable[..., Any], manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap `on_llm_end` of a model's run, sync and async: closes its turn."""
    if manager.run_id in turns:
        _end(manager.run_id, args[0] if args else kwargs.get("response"), None)
    return wrapped(*args, **kwargs)


def fail_model(
    wrapped: Callable[..., Any], manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap `on_llm_error`, sync and async: closes a turn that failed or was left."""
    if manager.run_id in turns:
        _end(manager.run_id, None, args[0] if args else kwargs.get("error"))
    return wrapped(*args, **kwargs)


async def agenerate(
    wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap `BaseChatModel.agenerate`: where that is cancelled, LangChain tells no one."""
    begun: list[UUID] = []
    before = BEGUN.set(begun)
    try:
        return await wrapped(*args, **kwargs)
    except BaseException:
        give_up(begun)
        raise
    finally:
        with suppress(ValueError):  # thrown away, it is closed wherever that happens
            BEGUN.reset(before)


@guarded
def _begin(  # noqa: PLR0913 - the call, and where it is made
    manager: Any,
    here: Scope | None,
    context: Context,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    place: int,
) -> None:
    run_id, above = manager.run_id, manager.parent_run_id
    scope = _callbacks.scope_for(above, here)
    # A model that calls a model reports the same tokens: the outer call counts.
    if scope is None or scope.run.is_closed or above in turns or spans.is_suppressed(context):
        return
    known: dict[str, Any] = manager.metadata
    asked: dict[str, Any] = kwargs.get("invocation_params") or {}
    model = known.get("ls_model_name") or asked.get("model") or asked.get("model_name")
    provider = known.get("ls_provider")
    model = model if isinstance(model, str) else None
    provider = provider if isinstance(provider, str) else None
    interval = spans.open_turn(
        scope.activation, model, provider=provider, context=context_in(context, scope)
    )
    turn = Turn(interval, CURRENT.get())
    note(run_id, turn)
    if gate.recorder is not None:
        given: Any = args[1] if len(args) > 1 else kwargs.get("messages") or kwargs.get("prompts")
        options = kwargs.get("options")
        turn.content = turn_opens(interval, given[place], known, asked, options, model, provider)


@guarded
def _end(run_id: UUID, response: Any, error: BaseException | None) -> None:
    turn = take(run_id)
    interval = turn.interval
    status, _ = spans.outcome(error)
    facts: dict[str, Value] = {}
    if response is not None:
        _take_all(response, interval, facts)
    if turn.content is not None:
        reasons: Any = facts.get(a.FINISH_REASONS, [])
        facts.update(turn_closes(turn.content, response, reasons) or {})
    interval.end(status, error=error if status == "error" else None, attributes=facts)


@guarded
def _take_all(response: Any, interval: Interval, facts: dict[str, Value]) -> None:
    """Take what a response says of itself; what it does not say stays unknown."""
    reasons: list[str] = []
    calls: list[Any] = []
    for generations in response.generations:
        for generation in generations:
            message = getattr(generation, "message", None)
            reason = _take(generation, message, facts)
            if isinstance(reason, str):
                reasons.append(reason)
            calls += getattr(message, "tool_calls", None) or ()
    if reasons:
        facts[a.FINISH_REASONS] = reasons
    if a.INPUT_TOKENS not in facts:
        usage = _said(response.llm_output).get("token_usage")
        facts.update(_tokens(usage, "prompt_tokens", "completion_tokens"))
    if calls:
        _remember(calls, interval)


def _take(generation: Any, message: Any, facts: dict[str, Value]) -> Any:
    """Take the model and the usage of one generation, and return why it ended."""
    reason: Any = None
    said: Any = getattr(message, "response_metadata", None)
    if said:
        model = said.get("model_name") or said.get("model")
        if isinstance(model, str):
            facts[a.RESPONSE_MODEL] = model
        reason = next((said[key] for key in _REASONS if said.get(key)), None)
        # OpenAI's Responses API tells only why an answer is not whole.
        reason = reason or _said(said.get("incomplete_details")).get("reason")
    if a.INPUT_TOKENS not in facts:
        usage: Any = getattr(message, "usage_metadata", None)
        facts.update(_tokens(usage, "input_tokens", "output_tokens"))
    info: Any = generation.generation_info
    return (info.get("finish_reason") if info else None) or reason


_REASONS: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")
"""Where LangChain's models tell why an answer ended: OpenAI's, Anthropic's, Ollama's, Bedrock's."""


def _tokens(usage: Any, read: str, written: str) -> dict[str, Value]:
    """Return the tokens of a turn, out of a dict or of the fields of an object."""
    said = _said(usage)
    found = said.get(read), said.get(written)
    if isinstance(found[0], int) and isinstance(found[1], int):
        return {a.INPUT_TOKENS: found[0], a.OUTPUT_TOKENS: found[1]}
    return {}


def _said(given: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else fields(given)


def _remember(calls: list[Any], interval: Interval) -> None:
    caller = interval.parent
    if caller is None:
        return
    asked = Asked(interval.span_id, _places(caller))
    for call in calls:
        known = _said(call)
        call_id = known.get("id")
        if isinstance(call_id, str):
            key = interval.run.id, call_id
            alike = _asked.setdefault(key, [])
            alike.append(asked)
            if len(alike) > 1:
                del alike[:-_MOST_ALIKE]
                _asked.move_to_end(key)
            if gate.recorder is not None:
                asked.names[call_id] = tuple(known.get("args") or ())
    while len(_asked) > _MOST_CALLS:
        _asked.popitem(last=False)
