"""AutoGen's messages, tools and answers as content; called only where content is on.

What is read are fields of objects that the host made, never their properties, and
nothing is copied here. What fails costs the content, and not the span.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from orchtrace_autogen import _framework as f
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.content import active, messages, tokens

if TYPE_CHECKING:
    from orchtrace_otel.content.opened import OpenTurn
    from orchtrace_otel.spans import Activation, Interval, Run, Scope, Value

_ROLES: Final[Mapping[str, str]] = {
    "SystemMessage": "system",
    "UserMessage": "user",
    "AssistantMessage": "assistant",
    "FunctionExecutionResultMessage": "tool",
}


def shape(given: Any) -> Mapping[str, Any]:
    """Return the shape of a message to a model, or of a model's answer."""
    held = fields(given)
    role = _ROLES.get(str(held.get("type")), "assistant" if "finish_reason" in held else "user")
    if role == "tool":
        return messages.message(role, [_answer(one) for one in held["content"]])
    parts = [_part(one) for one in _listed(held.get("content"))]
    if held.get("thought"):
        parts.insert(0, messages.reasoning(held["thought"]))
    # An answer comes without a name from the model; with the agent's it would be another
    # message in every later prompt.
    return messages.message(role, parts, held.get("source") if role == "user" else None)


def look(given: Any) -> tuple[Any, ...]:
    """Return what tells whether a message has changed; an answer looks like what becomes of it."""
    held = fields(given)
    kind = "AssistantMessage" if "finish_reason" in held else held.get("type")
    name = held.get("source") if _ROLES.get(str(kind), "user") == "user" else None
    content: Any = held.get("content")
    return (kind, *_listed(content), name, held.get("thought"))


def fields(given: Any) -> Mapping[str, Any]:
    """Return the fields of an object that keeps them in a dict; none of any other."""
    try:
        held: Mapping[str, Any] = object.__getattribute__(given, "__dict__")
    except AttributeError:
        return {}
    return held


def _listed(content: Any) -> list[Any]:
    if messages.is_a(content, list):
        return [*content]
    return [content] if content else []


def _part(one: Any) -> Mapping[str, Any]:
    held = fields(one)
    if "arguments" in held:
        return messages.tool_call(held.get("id"), held.get("name"), held["arguments"])
    if type(one) is str:
        return messages.text(one)
    return {"type": "generic", "content": f"<{type(one).__name__}>"}


def _answer(one: Any) -> Mapping[str, Any]:
    held = fields(one)
    return messages.tool_response(held.get("call_id"), held.get("content"))


_schemas: Final[weakref.WeakKeyDictionary[Any, Mapping[str, Any]]] = weakref.WeakKeyDictionary()
"""Definitions of tools; AutoGen makes a schema anew each time it is asked for one."""


def definitions(tools: Any) -> list[Mapping[str, Any]]:
    """Return the definitions of tools in the conventions' shape."""
    return [_definition(one) for one in tools or ()]


def _definition(tool: Any) -> Mapping[str, Any]:
    if isinstance(tool, dict):
        return _shaped(cast("dict[str, Any]", tool))
    try:
        known = _schemas.get(tool)
    except TypeError:
        return _shaped(tool.schema)
    if known is None:
        known = _schemas[tool] = _shaped(tool.schema)
    return known


def _shaped(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return messages.definition(
        schema.get("name"), schema.get("description"), schema.get("parameters")
    )


@guarded
def turn_opens(  # noqa: PLR0913 - what a client is asked
    interval: Interval,
    client: Any,
    args: tuple[Any, ...],
    asked: Mapping[str, Any],
    model: str | None,
    provider: str | None,
) -> OpenTurn | None:
    """Capture what a client is asked.

    Args:
        interval: The turn.
        client: The client.
        args: Its arguments by place.
        asked: Its arguments by name.
        model: The model that it asks for.
        provider: Who serves it.
    """
    recorder = active()
    if recorder is None:
        return None
    given: Any = args[0] if args else asked.get("messages") or ()
    extra: Any = asked.get("extra_create_args")
    choice: Any = asked.get("tool_choice")
    chosen = {"tool_choice": choice} if type(choice) is str else {}
    return recorder.open_turn(
        interval,
        given,
        shape=shape,
        look=look,
        tools=definitions(asked.get("tools")),
        parameters=messages.sampling(getattr(client, "_create_args", None), chosen, extra),
        model=model,
        provider=provider,
    )


@guarded
def turn_closes(turn: OpenTurn, result: Any) -> Mapping[str, str]:
    """Capture what a client answered, or that it did not; return the turn's attributes."""
    if not isinstance(result, f.CreateResult):
        return turn.close() or {}
    held = fields(result)
    extra: Any = getattr(result, "model_extra", None)
    return (
        turn.close(
            [result],
            finish_reasons=[result.finish_reason],
            tokens=tokens.of_answer({"logprobs": held.get("logprobs")}, held, extra),
            policy_version=tokens.version_of(held, extra),
            reasoning="kept" if result.thought else "none",
        )
        or {}
    )


@guarded
def tool_opens(tool: Scope, given: Any) -> None:
    """Capture the arguments of a tool call."""
    recorder = active()
    if recorder is not None and given is not None:
        facts = recorder.opening(tool.run, messages.read(given), a.TOOL_ARGUMENTS)
        if facts:
            tool.set(facts)


@guarded
def tool_closes(tool: Scope, answer: Any) -> None:
    """Capture the result of a tool call."""
    recorder = active()
    if recorder is not None:
        facts = recorder.closing(tool.run, _result(answer), a.TOOL_RESULT)
        if facts:
            tool.set(facts)


def _result(answer: Any) -> Any:
    """Return what a tool answered, out of what AutoGen wraps it in."""
    if messages.is_a(answer, tuple):
        parts: tuple[Any, ...] = answer
        found = (one for one in parts if isinstance(one, f.FunctionExecutionResult))
        return next((one.content for one in found), None)
    if isinstance(answer, f.ToolResult):
        return [fields(one).get("content") for one in answer.result]
    if isinstance(answer, f.CodeResult):
        return {"exit_code": answer.exit_code, "output": answer.output}
    return answer


@guarded
def message_facts(run: Run, message: Any) -> Mapping[str, Value]:
    """Return where the words of a chat message are kept; nothing while content is off."""
    recorder = active()
    if recorder is None:
        return {}
    held = fields(message)
    return recorder.opening(run, held.get("content", message), a.INPUT_MESSAGES, "user") or {}


@guarded
def interval_answers(interval: Interval, given: Any) -> None:
    """Capture what a person answered; that is what the event stands for."""
    recorder = active()
    if recorder is not None:
        facts = recorder.opening(interval.run, given, a.OUTPUT_MESSAGES, "user")
        if facts:
            interval.set(facts)


@guarded
def task_of(run: Run, task: Any) -> None:
    """Capture what a team or an agent is asked to do."""
    recorder = active()
    if recorder is None or task is None:
        return
    given: Any = [_words(one) for one in _listed(task)]
    told = given[0] if len(given) == 1 else given
    facts = recorder.opening(run, told, a.INPUT_MESSAGES, "user")
    if facts:
        run.root.set(facts)


def _words(given: Any) -> Any:
    return fields(given).get("content", given)


@guarded
def stopping(activation: Activation, words: Any) -> None:
    """Take the words in which a condition said why it ends a team, where the run ends with it."""
    recorder, run = active(), activation.run
    if recorder is not None and activation.parent is None and isinstance(words, str):
        recorder.stopping(run, words)
