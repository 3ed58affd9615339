"""What one LLM call said: the document `turn`, written and read.

A turn is one JSON document that names everything else by ref: the prompt, a chain of
documents each of which adds messages to the one before; the completion's messages; the
tools' definitions. docs/content.md shows each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from orchtrace_otel.content.store import Store
from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.errors import ContentError

VERSION: Final = 1
"""Version of the document; readers take this one and those before."""

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContent:
    """What one LLM call was asked and said.

    Messages have the shape of the GenAI conventions: `role`, `parts`, and `name` where
    there is one. A message that an agent of the run wrote earlier has, in the prompt,
    the ref of the completion it was: that tells what a policy wrote from what it read.

    Attributes:
        run_id: The run.
        turn_id: Span id of the call; `Turn.id` of the trace.
        prompt: Messages that were read, in order.
        completion: Messages that were written, one for each choice.
        prompt_refs: Their refs, message by message.
        completion_refs: Likewise.
        tools: Definitions of the tools on offer: `type`, `name`, `description`, `parameters`.
        parameters: Sampling parameters that were asked for, such as `temperature`.
        model: The model that was asked for.
        response_model: The model that says it answered.
        provider: Who serves it.
        policy_version: Version of the policy, where somebody said it.
        response_id: The provider's id of the answer.
        finish_reasons: Why each choice ended, in the provider's words.
        tokens: Token ids and log probabilities, and where they come from.
        reasoning: `kept` where a completion holds reasoning, `dropped` where the provider
            says that there was some, and does not give it; `none` where nothing says so.
        flags: `cut` where something was too long, `redacted` where something was taken out.
    """

    run_id: str
    turn_id: str
    prompt: tuple[Json, ...] = ()
    completion: tuple[Json, ...] = ()
    prompt_refs: tuple[str, ...] = ()
    completion_refs: tuple[str, ...] = ()
    tools: tuple[Json, ...] = ()
    parameters: Json = field(default_factory=dict[str, Any])
    model: str | None = None
    response_model: str | None = None
    provider: str | None = None
    policy_version: str | None = None
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    reasoning: str = "none"
    flags: tuple[str, ...] = ()


FACTS: Final = (
    "run_id",
    "turn_id",
    "model",
    "response_model",
    "provider",
    "policy_version",
    "response_id",
    "reasoning",
)
"""Fields that stand in the document as they are; absent where unknown."""


def turn_document(  # noqa: PLR0913 - one keyword a part of the document
    facts: Mapping[str, str | None],
    *,
    prompt: str | None,
    completion: Sequence[str],
    tools: str | None,
    parameters: Json,
    finish_reasons: Sequence[str],
    tokens: Tokens,
    flags: Sequence[str],
) -> dict[str, Any]:
    """Return the document of a turn; what is unknown or empty is left out.

    Args:
        facts: Values of `FACTS`.
        prompt: Ref of the last document of the prompt's chain.
        completion: Refs of the completion's messages.
        tools: Ref of the tools' definitions.
        parameters: Sampling parameters.
        finish_reasons: Why each choice ended.
        tokens: Token ids and log probabilities.
        flags: `cut`, `redacted`.
    """
    held = {
        **facts,
        "prompt": prompt,
        "completion": list(completion),
        "tools": tools,
        "parameters": dict(parameters),
        "finish_reasons": list(finish_reasons),
        "tokens": tokens.to_dict(),
        "flags": sorted(flags),
    }
    return {"version": VERSION} | {key: value for key, value in held.items() if value}


def read_turn(store: Store, ref: str) -> TurnContent:
    """Read a turn with all that it names.

    Args:
        store: Where it is kept.
        ref: `Turn.content_ref` of a trace.

    Raises:
        ContentError: If the store lacks it or a part of it, or it is no turn of a version
            that is known.
    """
    document = _document(store, ref, "turn")
    if document.get("version") != VERSION:
        msg = f"turn {ref!r} must be of version {VERSION}, got {document.get('version')!r}"
        raise ContentError(msg)
    prompt = tuple(_prompt(store, document.get("prompt")))
    completion = tuple(document.get("completion", ()))
    tools = document.get("tools")
    return TurnContent(
        **{name: document[name] for name in FACTS if name in document},
        prompt=tuple(_document(store, one, "message") for one in prompt),
        completion=tuple(_document(store, one, "message") for one in completion),
        prompt_refs=prompt,
        completion_refs=completion,
        tools=tuple(_document(store, tools, "tools")["tools"]) if tools else (),
        parameters=document.get("parameters", {}),
        finish_reasons=tuple(document.get("finish_reasons", ())),
        tokens=Tokens.from_dict(document.get("tokens", {})),
        flags=tuple(document.get("flags", ())),
    )


def _prompt(store: Store, ref: str | None) -> list[str]:
    """Return the refs of a prompt's messages: each document adds to the one before it."""
    added: list[Sequence[str]] = []
    while ref is not None:
        document = _document(store, ref, "prompt")
        added.append(document["messages"])
        ref = document.get("before")
    return [message for messages in reversed(added) for message in messages]


def _document(store: Store, ref: str, kind: str) -> dict[str, Any]:
    found, body = store.get(ref)
    if found != kind:
        msg = f"{ref!r} must be the ref of a {kind}, the store has a {found} there"
        raise ContentError(msg)
    held: dict[str, Any] = body
    return held
