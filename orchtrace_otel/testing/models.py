"""A scripted model for plain code: the same answers each time, and a span for each call.

It stands for a provider's client under an instrumentation of the GenAI conventions: each
call is a `chat` span of the global provider, from which turns and tokens are counted. The
frameworks' own scripted models lie with their adapters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace

from orchtrace_otel import attributes as a
from orchtrace_otel import content

__all__ = ["Answer", "ScriptedModel"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says, and the usage it reports; None where it reports none."""

    text: str
    input_tokens: int | None = 7
    output_tokens: int | None = 3
    finish_reason: str = "stop"


class ScriptedModel:
    """A model that gives the next of its answers.

    Where content is on, a call is told by `content.ask`, as plain code would.

    Attributes:
        prompts: What it was asked so far; kept here alone, never in a span.

    Example:
        >>> from orchtrace_otel.decorators import agent
        >>> from orchtrace_otel.testing import capture
        >>> model = ScriptedModel("yes", "no")
        >>> with capture() as captured:
        ...     agent(model.ask, name="critic")("Is it right?")
        'yes'
        >>> [(turn.agent, turn.tokens) for turn in captured.trace.turns]
        [('critic', 10)]
    """

    def __init__(self, *answers: str | Answer, name: str = "scripted") -> None:
        self.name = name
        self.prompts: list[str] = []
        self._answers = iter(_answers(answers))

    def ask(self, prompt: str) -> str:
        """Answer, in a span of the call.

        Raises:
            LookupError: If the script has no further answer.
        """
        self.prompts.append(prompt)
        if content.active() is None:
            return self._answer().text
        with content.ask(self.name, [{"role": "user", "content": prompt}]) as asked:
            answer = self._answer()
            asked.answered(_response(self.name, answer))
            return answer.text

    def _answer(self) -> Answer:
        """Give the next answer, in a span as a provider's instrumentation makes it."""
        tracer = trace.get_tracer("a provider's instrumentation")
        asked = {a.OPERATION: a.CHAT, a.REQUEST_MODEL: self.name, a.PROVIDER: "scripted"}
        with tracer.start_as_current_span(f"{a.CHAT} {self.name}", attributes=asked) as span:
            answer = next(self._answers, None)
            if answer is None:
                msg = f"the script must have an answer for call {len(self.prompts)}, got none"
                raise LookupError(msg)
            span.set_attribute(a.RESPONSE_MODEL, self.name)
            span.set_attribute(a.FINISH_REASONS, [answer.finish_reason])
            if answer.input_tokens is not None:
                span.set_attribute(a.INPUT_TOKENS, answer.input_tokens)
            if answer.output_tokens is not None:
                span.set_attribute(a.OUTPUT_TOKENS, answer.output_tokens)
            return answer

    async def aask(self, prompt: str) -> str:
        """Answer under asyncio."""
        return self.ask(prompt)


def _response(model: str, answer: Answer) -> dict[str, Any]:
    """Return an answer as a chat server gives it."""
    said = {"role": "assistant", "content": answer.text}
    usage = {"prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens}
    choice = {"message": said, "finish_reason": answer.finish_reason}
    return {"model": model, "choices": [choice], "usage": usage}


def _answers(given: Iterable[str | Answer]) -> Iterable[Answer]:
    return (Answer(one) if isinstance(one, str) else one for one in given)
