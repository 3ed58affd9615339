"""A turn that is captured while it is open: the prompt at its start, the answer at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.content.memory import Kept, memory_of
from orchtrace_otel.content.messages import joined, with_reason
from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.content.turn import turn_document
from orchtrace_otel.content.values import CUT, TAKEN, dumped
from orchtrace_otel.content.witness import of_parts
from orchtrace_otel.content.writer import New
from orchtrace_otel.model import is_text

if TYPE_CHECKING:
    from orchtrace_otel.content.recorder import Recorder
    from orchtrace_otel.spans import Interval

Attributes: TypeAlias = dict[str, str]
Shape: TypeAlias = Callable[[Any], Mapping[str, Any]]
"""Makes a message of the conventions out of the host's, without copying its parts."""
Look: TypeAlias = Callable[[Any], tuple[Any, ...]]
"""Takes the parts of a host's message that tell whether it has changed; cheap. `shape` makes
its message of these alone."""


class OpenTurn:
    """One turn that is captured, from its prompt to its completion.

    Args:
        recorder: Who captures.
        interval: The turn.
        shape: See `Shape`.
        look: See `Look`.
        model: The model that was asked for.
        provider: Who serves it.
    """

    __slots__ = (
        "_flags",
        "_interval",
        "_look",
        "_memory",
        "_model",
        "_parameters",
        "_prompt",
        "_provider",
        "_recorder",
        "_shape",
        "_tools",
    )

    def __init__(  # noqa: PLR0913 - what is known when it opens
        self,
        recorder: Recorder,
        interval: Interval,
        shape: Shape,
        look: Look,
        model: str | None,
        provider: str | None,
    ) -> None:
        self._recorder = recorder
        self._interval = interval
        self._shape = shape
        self._look = look
        self._model = model
        self._provider = provider
        self._memory = memory_of(interval.run, recorder)
        self._flags: set[str] = set()
        self._prompt: str | None = None
        self._tools: str | None = None
        self._parameters: Any = {}

    def ask(self, messages: Iterable[Any], tools: list[Any], parameters: dict[str, Any]) -> None:
        """Take in the prompt; see `Recorder.open_turn`."""
        recorder, run, memory = self._recorder, self._interval.run, self._memory
        self._parameters, flags = recorder.copy(parameters)
        self._flags |= flags
        new: list[New] = []
        with memory.lock:
            look, find = self._look, memory.find
            kept = [
                find(of_parts(look(one))) or recorder.message(memory, one, self._shape, look, new)
                for one in messages
            ]
            refs = [one.ref for one in kept]
            offered = self._offer(tools, new)
            agent = "" if self._interval.parent is None else self._interval.parent.instance
            before, added = memory.before(agent, refs)
            if before is not None and not added:
                self._prompt = before
            else:
                held = {"messages": list(added)} | ({"before": before} if before else {})
                prompt = recorder.document("prompt", held)
                new.append(prompt)
                self._prompt = prompt.ref
            if recorder.keep(run, memory, new):
                memory.remember_prompt(agent, refs, self._prompt)
            else:
                self._prompt = self._tools = None
        self._flags.update(*(one.flags for one in kept))
        self._tell(kept, offered)

    def _offer(self, tools: list[Any], new: list[New]) -> bytes:
        if not tools:
            return b""
        held, flags = self._recorder.copy(tools)
        self._flags |= flags
        document = self._recorder.document("tools", {"tools": held})
        new.append(document)
        self._tools = document.ref
        return dumped(held)

    def _tell(self, kept: Sequence[Kept], tools: bytes) -> None:
        """Write on the span what was asked, and where it is kept."""
        facts: Attributes = {}
        if self._prompt is not None:
            facts[a.PROMPT_REF] = self._prompt
        recorder = self._recorder
        if recorder.on_spans:
            text, left_out = joined([one.text for one in kept], recorder.capture.span_bytes)
            facts[a.INPUT_MESSAGES] = text.decode()
            if tools:
                facts[a.TOOL_DEFINITIONS] = recorder.within(tools)
            if left_out:
                recorder.lose("content_cut_on_spans")
        if facts:
            self._interval.set(facts)

    @guarded
    def close(  # noqa: PLR0913 - one keyword a part of the answer
        self,
        completion: Iterable[Any] = (),
        *,
        finish_reasons: Sequence[str] = (),
        tokens: Tokens | None = None,
        response_model: str | None = None,
        response_id: str | None = None,
        policy_version: str | None = None,
        reasoning: str = "none",
    ) -> Attributes:
        """Take in what a model answered; return the attributes that say where it is.

        Args:
            completion: The host's messages, one for each choice.
            finish_reasons: Why each ended.
            tokens: Token ids and log probabilities of the first choice.
            response_model: The model that says it answered.
            response_id: The provider's id of the answer.
            policy_version: Version of the policy, where the answer says it.
            reasoning: `kept`, `dropped` or `none`.
        """
        recorder, run, memory = self._recorder, self._interval.run, self._memory
        if not run.is_recording:
            return {}
        new: list[New] = []
        finish_reasons = list(map(_writable, finish_reasons))
        with memory.lock:
            kept = [
                recorder.message(memory, one, self._shape, self._look, new) for one in completion
            ]
            self._flags.update(*(one.flags for one in kept))
            policy = recorder.policy(self._model)
            version = policy.get("version", policy_version)
            facts = {
                "run_id": run.id,
                "turn_id": self._interval.span_id,
                "model": self._model,
                "response_model": response_model,
                "provider": self._provider,
                "policy_version": version,
                "response_id": response_id,
                "reasoning": reasoning,
            }
            document = recorder.document(
                "turn",
                turn_document(
                    {key: _writable(told) for key, told in facts.items() if told is not None},
                    prompt=self._prompt,
                    completion=[one.ref for one in kept],
                    tools=self._tools,
                    parameters=self._parameters,
                    finish_reasons=finish_reasons,
                    tokens=self._safe(tokens or Tokens(why_absent="not given"), policy),
                    flags=sorted(self._flags),
                ),
            )
            new.append(document)
            found: Attributes = {} if version is None else {a.POLICY_VERSION: version}
            if recorder.keep(run, memory, new):
                found[a.CONTENT_REF] = document.ref
                if kept:
                    found[a.COMPLETION_REF] = kept[0].ref
        recorder.note(run, self._flags)
        if recorder.on_spans and kept:
            said = [with_reason(one.text, finish_reasons, at) for at, one in enumerate(kept)]
            found[a.OUTPUT_MESSAGES] = joined(said, recorder.capture.span_bytes)[0].decode()
        return found

    def _safe(self, tokens: Tokens, policy: Mapping[str, str]) -> Tokens:
        """Return tokens that say no more than the texts that are kept.

        Where a secret was taken out of a text, its tokens spell it out.
        """
        if TAKEN in self._flags:
            return Tokens(why_absent="redacted")
        size = len(tokens.prompt_ids) + len(tokens.ids) + len(tokens.logprobs)
        if size * _TOKEN_BYTES > self._recorder.capture.item_bytes * 4:
            self._flags.add(CUT)
            return Tokens(why_absent="too long")
        return tokens.with_policy(policy)


def _writable(label: str) -> str:
    """Return what a server calls something as UTF-8 can hold it, such as without half an emoji."""
    return label if is_text(label) else label.encode("utf-8", "replace").decode()


_TOKEN_BYTES: Final = 8
