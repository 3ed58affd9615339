"""Turns of plain code: a call of a model that no adapter sees.

The span of the call is ours, and current in the block: what an instrumentation of the
provider makes of the same call lies inside, and its tokens count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from opentelemetry import context as otel_context
from opentelemetry import trace

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.content import gate
from orchtrace_otel.content.messages import is_a, look_at_chat, of_chat, of_tools, sampling
from orchtrace_otel.content.tokens import of_answer, part, version_of
from orchtrace_otel.spans import Block, Interval, Value

if TYPE_CHECKING:
    from orchtrace_otel.content.opened import OpenTurn
    from orchtrace_otel.content.recorder import Recorder


class ask:  # noqa: N801 - a verb, used as `with ask(...)`
    """Make what is called in the block one turn of the agent that is current.

    Outside a run it does nothing. While content is off the turn has its model, its usage
    and why it ended, and nothing of what was said.

    Args:
        model: The model that is asked for.
        messages: What it is asked, as chat servers take it: dicts of `role` and `content`,
            and answers as they came.
        tools: Tools on offer, as chat servers take them; None where there are none.
        parameters: The request's other fields; the sampling parameters among them are kept.
        provider: Who serves it, in the words of the GenAI conventions.

    Example:
        >>> from orchtrace_otel import agent
        >>> from orchtrace_otel.testing import capture
        >>> @agent
        ... def critic(question):
        ...     with ask("tiny", [{"role": "user", "content": question}]) as asked:
        ...         said = {"message": {"role": "assistant", "content": "yes"}}
        ...         usage = {"prompt_tokens": 7, "completion_tokens": 3}
        ...         asked.answered({"choices": [said], "usage": usage})
        ...     return "yes"
        >>> with capture() as captured:
        ...     critic("right?")
        'yes'
        >>> [(turn.agent, turn.tokens) for turn in captured.trace.turns]
        [('critic', 10)]
    """

    __slots__ = ("_block", "_facts", "_interval", "_request", "_turn")

    def __init__(
        self,
        model: str | None,
        messages: Iterable[Any],
        *,
        tools: Iterable[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        provider: str | None = None,
    ) -> None:
        self._request = (model, messages, tools, parameters, provider)
        self._interval: Interval | None = None
        self._block: Block | None = None
        self._turn: OpenTurn | None = None
        self._facts: dict[str, Value] = {}

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._block is not None:
            self._block.leave()
        self._close(error)

    @property
    def turn_id(self) -> str | None:
        """Id of the turn, for rewards of its own; None outside a run."""
        return None if self._interval is None else self._interval.span_id

    @guarded
    def answered(self, response: Any) -> None:
        """Take the answer: what a chat server gave back, as a mapping or its library's object."""
        if self._interval is None:
            return
        choices = [*(part(response, "choices") or ())]
        reasons = [str(part(one, "finish_reason") or "unknown") for one in choices]
        self._facts.update(_facts(response, reasons))
        if self._turn is None:
            return
        first = choices[0] if choices else None
        said = [_message(part(one, "message")) for one in choices]
        told = (response, first, part(first, "message"))
        facts = self._turn.close(
            said,
            finish_reasons=reasons,
            tokens=of_answer(*told),
            response_model=_text(part(response, "model")),
            response_id=_text(part(response, "id")),
            policy_version=version_of(*told),
            reasoning=_reasoning(said, part(response, "usage")),
        )
        self._facts.update(facts or {})
        self._turn = None

    @guarded
    def _open(self) -> None:
        context = otel_context.get_current()
        scope = spans.scope_of(context)
        if scope is None or scope.run.is_closed or not scope.run.is_recording:
            return
        model, _, _, _, provider = self._request
        self._interval = interval = spans.open_turn(
            scope.activation, model, provider=provider, context=context
        )
        self._block = Block(trace.set_span_in_context(interval.span))
        recorder = gate.active()
        if recorder is not None:
            self._turn = self._captured(recorder, interval)

    @guarded
    def _captured(self, recorder: Recorder, interval: Interval) -> OpenTurn | None:
        """Capture what is asked; what cannot be read of it costs no more than its content."""
        model, messages, tools, parameters, provider = self._request
        if isinstance(messages, (str, bytes, Mapping)):  # would be gone through letter by letter
            warn_once(
                "ask",
                "ask() needs messages as a list of dicts with role and content, got a %s; "
                "the content of the call is not captured",
                type(cast("object", messages)).__name__,
            )
            return None
        return recorder.open_turn(
            interval,
            (_read(one) for one in messages),
            shape=of_chat,
            look=look_at_chat,
            tools=of_tools([*(tools or ())]),
            parameters=sampling(dict(parameters or {})),
            model=model,
            provider=provider,
        )

    @guarded
    def _close(self, error: BaseException | None) -> None:
        if self._interval is None:
            return
        if self._turn is not None:
            self._facts.update(self._turn.close() or {})
        status, _ = spans.outcome(error)
        self._interval.close(
            status=status, error=error if status == "error" else None, attributes=self._facts
        )


def _facts(response: Any, reasons: list[str]) -> dict[str, Value]:
    """Return what an answer says of itself beside what was said."""
    usage = part(response, "usage")
    facts: dict[str, Value] = {a.FINISH_REASONS: reasons} if reasons else {}
    for key, name in _USAGE.items():
        count = part(usage, name)
        if isinstance(count, int):
            facts[key] = count
    for key, name in ((a.RESPONSE_MODEL, "model"), (a.RESPONSE_ID, "id")):
        told = _text(part(response, name))
        if told is not None:
            facts[key] = told
    return facts


_USAGE: Final[Mapping[str, str]] = {
    a.INPUT_TOKENS: "prompt_tokens",
    a.OUTPUT_TOKENS: "completion_tokens",
}


def _read(given: Any) -> Any:
    """Return a message that is asked as a dict, be it or its calls of a provider's library."""
    if not is_a(given, dict):
        role = part(given, "role")
        is_one = role == "assistant" or (role and part(given, "content") is not None)
        return _message(given, role) if is_one else given
    calls = given.get("tool_calls")
    if not calls or all(map(_is_plain, calls)):
        return given
    return {**given, "tool_calls": [_call(one) for one in calls]}


def _is_plain(call: Any) -> bool:
    return is_a(call, dict) and all(is_a(call.get(key, {}), dict) for key in _CALLED)


def _message(given: Any, role: Any = "assistant") -> dict[str, Any]:
    """Return a message as a dict, be it one or an object of the provider's library."""
    held = {
        "role": role,
        "content": part(given, "content"),
        "name": part(given, "name"),
        "tool_call_id": part(given, "tool_call_id"),
        "reasoning_content": part(given, "reasoning_content") or part(given, "reasoning"),
        "tool_calls": [_call(one) for one in part(given, "tool_calls") or ()],
        "refusal": part(given, "refusal"),
        "function_call": _fields(part(given, "function_call"), "name", "arguments"),
    }
    return {key: value for key, value in held.items() if value}


def _call(given: Any) -> dict[str, Any]:
    """Return a call of a tool as a dict: of a function, or of a tool that takes any text."""
    held = {
        "id": part(given, "id"),
        "type": part(given, "type"),
        **{key: _fields(part(given, key), *names) for key, names in _CALLED.items()},
    }
    return {key: value for key, value in held.items() if value is not None}


_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "function": ("name", "arguments"),
    "custom": ("name", "input"),
}
"""What a call of a tool says, by its type."""


def _fields(given: Any, *names: str) -> dict[str, Any] | None:
    return None if given is None else {name: part(given, name) for name in names}


def _reasoning(said: list[dict[str, Any]], usage: Any) -> str:
    if any("reasoning_content" in one for one in said):
        return "kept"
    details = part(usage, "completion_tokens_details")
    return "dropped" if part(details, "reasoning_tokens") else "none"


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None
