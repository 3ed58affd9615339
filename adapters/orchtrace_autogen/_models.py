"""LLM turns: every class of model client, each call once.

A call inside a call, of a base class or of a client behind a cache, belongs to the
outer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context, create_key, get_current, set_value
from opentelemetry.trace import set_span_in_context

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, drive, follow
from orchtrace_autogen._content import turn_closes, turn_opens
from orchtrace_autogen._work import Asked, Work, recording, work_of
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Wrapper
from orchtrace_otel.content import gate
from orchtrace_otel.spans import Interval, Value, is_suppressed, open_turn, outcome

if TYPE_CHECKING:
    from orchtrace_otel.content.opened import OpenTurn

_INSIDE: Final = create_key("orchtrace-autogen-model-call")

_PROVIDERS: Final[Mapping[str, str]] = {
    "AzureOpenAIChatCompletionClient": "azure.ai.openai",
    "BaseOpenAIChatCompletionClient": "openai",
    "AnthropicBedrockChatCompletionClient": "aws.bedrock",
    "BaseAnthropicChatCompletionClient": "anthropic",
    "AzureAIChatCompletionClient": "azure.ai.inference",
    "BaseOllamaChatCompletionClient": "ollama",
}
"""Values of `gen_ai.provider.name`, by the client's class or the nearest base of it."""


class _Turn(Call):
    __slots__ = ("_asked", "_interval", "_work", "content")

    def __init__(self, interval: Interval, context: Context, work: Work | None) -> None:
        super().__init__(set_span_in_context(interval.span, unseen(context)))
        self._interval = interval
        self._work = work
        self._asked: Asked | None = None
        self.content: OpenTurn | None = None
        if work is not None:
            self._asked = work.ask(interval.span_id)
            work.open.add(interval)

    def left(self) -> None:
        """End the turn of a stream that nobody can read on."""
        self.close(None, GeneratorExit())

    @guarded
    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End the turn with what the client says about it."""
        status, _ = outcome(error)
        if self._work is not None:
            self._work.open.discard(self._interval)
        facts: dict[str, Value] = {}
        if isinstance(result, f.CreateResult):
            facts.update(_facts(result) or {})
            self._promise(result)
        if self.content is not None:
            facts.update(turn_closes(self.content, result) or {})
            self.content = None
        self._interval.close(
            status=status, error=error if status == "error" else None, attributes=facts or None
        )

    @guarded
    def _promise(self, result: f.CreateResult) -> None:
        if self._work is None or self._asked is None or isinstance(result.content, str):
            return
        for call in result.content:
            self._work.calls[call.id] = self._asked


def unseen(context: Context) -> Context:
    """Return a context like `context` in which calls of models are no turns."""
    return set_value(_INSIDE, True, context)  # noqa: FBT003 - a flag


@guarded
def _facts(result: f.CreateResult) -> dict[str, Value]:
    facts: dict[str, Value] = {a.FINISH_REASONS: [result.finish_reason]}
    if result.thought:
        facts[a.THOUGHT] = True
    if result.logprobs:
        facts[a.LOGPROBS] = True
    usage = result.usage
    if result.cached:
        # It comes with the usage of the call that was answered first, and has cost nothing.
        return facts | {a.CACHED: True, a.INPUT_TOKENS: 0, a.OUTPUT_TOKENS: 0}
    # No prompt has no tokens: a client that was not told writes zeros.
    if usage.prompt_tokens:
        facts[a.INPUT_TOKENS] = usage.prompt_tokens
    if usage.completion_tokens or usage.prompt_tokens:
        facts[a.OUTPUT_TOKENS] = usage.completion_tokens
    return facts


def _create(wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
    return follow(lambda: _open(client, args, kwargs), wrapped(*args, **kwargs))


def _create_stream(wrapped: Any, client: Any, args: Any, kwargs: Any) -> Any:
    return drive(lambda: _open(client, args, kwargs), wrapped(*args, **kwargs))


@guarded
def _open(client: Any, args: tuple[Any, ...], asked: Mapping[str, Any]) -> Call | None:
    context = get_current()
    scope = recording(context)
    if scope is None or context.get(_INSIDE) is True or is_suppressed(context):
        return None
    model, provider = _model(client), _provider(client)
    facts = {a.OUTPUT_TYPE: "json"} if asked.get("json_output") else None
    interval = open_turn(
        scope.activation, model, provider=provider, attributes=facts, context=context
    )
    # What a tool asks a model for is no answer to the agent's own prompt.
    work = work_of(scope, context) if scope is scope.activation else None
    turn = _Turn(interval, context, work)
    if gate.recorder is not None:
        turn.content = turn_opens(interval, client, args, asked, model, provider)
    return turn


def _model(client: Any) -> str | None:
    """Return the model that a client asks for, where its class keeps it as the known ones do."""
    given: Any = getattr(client, "_create_args", None)
    model: object = given.get("model") if hasattr(given, "get") else None
    if isinstance(model, str):
        return model
    behind = getattr(client, "client", None)
    return _model(behind) if isinstance(behind, f.ChatCompletionClient) else None


def _provider(client: Any) -> str | None:
    names = (kind.__name__ for kind in type(client).__mro__)
    return next((_PROVIDERS[name] for name in names if name in _PROVIDERS), None)


CLIENTS: Final[Mapping[str, Wrapper]] = {"create": _create, "create_stream": _create_stream}
