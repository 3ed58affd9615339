"""LangChain's messages, tools and answers as content; called only where content is on.

What is read are fields of objects that the host made, never their properties, and
nothing is copied here. What fails costs the content, and not the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from orchtrace_langgraph._framework import COMMAND, is_a
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.content import active, messages, tokens
from orchtrace_otel.model import plain_text

if TYPE_CHECKING:
    from orchtrace_otel.content.opened import OpenTurn
    from orchtrace_otel.spans import Interval, Run, Scope

_ROLES: Final[Mapping[str, str]] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "developer": "developer",
}
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call"})
"""Types of blocks that say once more which tools are called."""
MESSAGE: Final = "langchain_core.messages:ToolMessage"
"""What tools answer with that are called by a model."""

_NOT_ARGUMENTS: Final = frozenset({"state", "store", "runtime", "config", "run_manager"})
"""What LangGraph puts beside the arguments of a tool, such as all of the state."""


def shape(given: Any) -> Mapping[str, Any]:
    """Return the shape of a message of LangChain's, a prompt's text, or a message as a dict."""
    held = fields(given)
    kind = held.get("type")
    if not isinstance(kind, str) or "content" not in held:
        return messages.of_chat(given)
    kind = kind.removesuffix("MessageChunk").lower()
    role = _ROLES.get(kind) or str(held.get("role") or kind)
    if role == "tool":
        answer = messages.tool_response(held.get("tool_call_id"), held["content"])
        return messages.message(role, [answer], held.get("name"))
    calls = [*(held.get("tool_calls") or ()), *(held.get("invalid_tool_calls") or ())]
    parts = [
        messages.block(one)
        for one in _blocks(held["content"])
        if not (calls and isinstance(one, dict) and cast("Any", one).get("type") in _CALLS)
    ]
    thought = _thought(held)
    if thought:
        parts.insert(0, messages.reasoning(thought))
    parts += [messages.tool_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
    # The name that an agent gives to its answer is no part of what its model wrote: without
    # it the answer has one ref, here and in every later prompt.
    return messages.message(role, parts, None if role == "assistant" else held.get("name"))


def look(given: Any) -> tuple[Any, ...]:
    """Return what tells whether a message has changed."""
    held = fields(given)
    kind = held.get("type")
    if not isinstance(kind, str) or "content" not in held:
        return messages.look_at_chat(given)
    more: Any = held.get("additional_kwargs")
    thought = _thought(held) if more else None
    role, name, answers = held.get("role"), held.get("name"), held.get("tool_call_id")
    # What a model wrote of a call, though nobody can read its arguments, it reads again.
    calls, broken = held.get("tool_calls") or None, held.get("invalid_tool_calls") or None
    return (kind, role, name, answers, thought, held["content"], calls, broken)


def fields(given: Any) -> Mapping[str, Any]:
    """Return the fields of an object that keeps them in a dict; none of any other."""
    try:
        held: Mapping[str, Any] = object.__getattribute__(given, "__dict__")
    except AttributeError:
        return {}
    return held


def _blocks(content: Any) -> list[Any]:
    if messages.is_a(content, list):
        return [*content]
    return [content] if content else []


def _thought(held: Mapping[str, Any]) -> Any:
    more: Any = held.get("additional_kwargs")
    return tokens.part(more, "reasoning_content")


@guarded
def turn_opens(  # noqa: PLR0913 - what the callback is told
    interval: Interval,
    given: Any,
    known: Mapping[str, Any],
    params: Mapping[str, Any],
    options: Any,
    model: str | None,
    provider: str | None,
) -> OpenTurn | None:
    """Capture what a model is asked.

    Args:
        interval: The turn.
        given: Its messages, or the text of its prompt.
        known: LangChain's metadata of the call, which name some parameters in one way for all.
        params: Its `invocation_params`.
        options: Its `options`.
        model: The model that is asked for.
        provider: Who serves it.
    """
    recorder = active()
    if recorder is None:
        return None
    prompt: Iterable[Any] = given if messages.is_a(given, list) else [given]
    return recorder.open_turn(
        interval,
        prompt,
        shape=shape,
        look=look,
        tools=messages.of_tools(params.get("tools")),
        parameters=messages.sampling(_standard(known), params, options),
        model=model,
        provider=provider,
    )


def _standard(known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: known.get(f"ls_{name}") for name in ("temperature", "max_tokens", "stop")}


@guarded
def turn_closes(turn: OpenTurn, response: Any, reasons: list[str]) -> Mapping[str, str]:
    """Capture what a model answered, or that it did not; return the turn's attributes."""
    if response is None:
        return turn.close() or {}
    choices = [one for prompt in response.generations for one in prompt]
    said = [getattr(one, "message", None) or _as_chat(one) for one in choices]
    told = _told(choices[0], said[0], response.llm_output) if choices else []
    metadata: Any = fields(said[0]).get("response_metadata") if said else None
    return (
        turn.close(
            said,
            finish_reasons=reasons,
            tokens=tokens.of_answer(*told),
            response_model=_text(tokens.part(metadata, "model_name")),
            response_id=_text(tokens.part(metadata, "id")) or _text(_id_of(said)),
            policy_version=tokens.version_of(*told),
            reasoning=_reasoning(said),
        )
        or {}
    )


def _as_chat(generation: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": generation.text}


def _told(generation: Any, message: Any, output: Any) -> list[Any]:
    """Return where an answer may tell of its tokens."""
    held = fields(message)
    info: Any = generation.generation_info
    return [info, held.get("response_metadata"), held.get("additional_kwargs"), output]


def _id_of(said: list[Any]) -> Any:
    """Return the id of an answer, which LangChain makes up where the provider gives none."""
    held = fields(said[0]).get("id") if said else None
    return None if isinstance(held, str) and held.startswith(("run-", "lc_run-")) else held


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None


def _reasoning(said: list[Any]) -> str:
    for one in said:
        held = fields(one)
        blocks = _blocks(held.get("content"))
        if _thought(held) or any(_is_thought(block) for block in blocks):
            return "kept"
        details = tokens.part(held.get("usage_metadata"), "output_token_details")
        if tokens.part(details, "reasoning"):
            return "dropped"
    return "none"


def _is_thought(block: Any) -> bool:
    return isinstance(block, dict) and cast("Any", block).get("type") in {"thinking", "reasoning"}


def arguments(given: Any, asked: tuple[str, ...] | None) -> Any:
    """Return the arguments of a tool call, without what LangGraph puts in beside them.

    Args:
        given: What the tool is called with.
        asked: Names of the arguments that a model asked with, where it is known to have.
    """
    if type(given) is not dict:
        return given
    held = cast("dict[str, Any]", given)
    if asked is not None:
        return {name: held[name] for name in asked if name in held}
    return {name: value for name, value in held.items() if name not in _NOT_ARGUMENTS}


def answers(given: Any) -> list[Any]:
    """Return what a tool answered: a list of messages and commands one by one, or all as one."""
    several = messages.is_a(given, list) and all(
        is_a(one, MESSAGE) or is_a(one, COMMAND) for one in given
    )
    return given if several else [given]


def result(given: Any) -> Any:
    """Return what a tool answered; of a command, which holds the state, only where it goes."""
    several = answers(given)
    if several is given:
        return [result(one) for one in several]
    if is_a(given, COMMAND):
        # A Send carries a state of its own.
        return {"goto": [plain_text(getattr(one, "node", one)) for one in _several(given.goto)]}
    held = fields(given)
    return held["content"] if "content" in held and "tool_call_id" in held else given


def _several(given: Any) -> list[Any]:
    is_many: bool = given.__class__ in (list, tuple)
    return [*given] if is_many else [given]


@guarded
def tool_opens(tool: Scope, given: Any, asked: tuple[str, ...] | None) -> None:
    """Capture the arguments of a tool call."""
    recorder = active()
    if recorder is not None:
        facts = recorder.opening(tool.run, arguments(given, asked), a.TOOL_ARGUMENTS)
        if facts:
            tool.set(facts)


@guarded
def tool_closes(tool: Scope, answer: Any) -> None:
    """Capture the result of a tool call."""
    recorder = active()
    if recorder is not None:
        facts = recorder.closing(tool.run, result(answer), a.TOOL_RESULT)
        if facts:
            tool.set(facts)


@guarded
def task_of(run: Run | None, given: Any) -> None:
    """Capture what a run of a graph is given."""
    recorder = active()
    if recorder is not None and run is not None and given is not None:
        facts = recorder.opening(run, given, a.INPUT_MESSAGES, "user")
        if facts:
            run.root.set(facts)


@guarded
def asks_person(run: Run, error: BaseException | None) -> Mapping[str, str]:
    """Return where it is kept what interrupts ask a person; nothing while content is off."""
    recorder = active()
    if recorder is None or error is None:
        return {}
    asked = [getattr(one, "value", one) for arg in error.args for one in _several(arg)]
    told: Any = asked[0] if len(asked) == 1 else asked
    return recorder.opening(run, told, a.INPUT_MESSAGES, "assistant") or {}


@guarded
def person_answers(run: Run, answer: Any) -> Mapping[str, str]:
    """Return where it is kept what a person answered; nothing while content is off."""
    recorder = active()
    if recorder is None or answer is None:
        return {}
    return recorder.opening(run, answer, a.OUTPUT_MESSAGES, "user") or {}
