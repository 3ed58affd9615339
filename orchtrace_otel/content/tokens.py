"""Token ids and log probabilities, where they come from, and what they are worth.

A trainer may use them as the behaviour policy's own only where they are: `exact` ids
came from the server that sampled them, `retokenised` ones were made from text
afterwards and may differ, and what is `absent` is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

EXACT: Final = "exact"
RETOKENISED: Final = "retokenised"
ABSENT: Final = "absent"
PROVENANCES: Final = (EXACT, RETOKENISED, ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of one turn, of its first choice.

    Attributes:
        provenance: One of `PROVENANCES`, of `ids`; `absent` where there are none.
        prompt_ids: What the policy read, as its own ids.
        ids: What it wrote, likewise.
        logprobs: Natural logarithm of the probability of each of `ids`, or of each token
            of the completion where the ids are absent.
        logprobs_kind: `raw` where they are those of the model, `processed` where
            temperature, penalties and such are in them; `unknown` where nobody said.
        mask: One for each of `ids`: 1 where the policy sampled it, 0 where it was forced.
        tokenizer: Name, or name and revision, of the tokenizer.
        chat_template: Hash of the chat template that made the prompt's ids.
        why_absent: `not given`, `redacted` or `too long`.
    """

    provenance: str = ABSENT
    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    logprobs_kind: str = "unknown"
    mask: tuple[int, ...] = ()
    tokenizer: str | None = None
    chat_template: str | None = None
    why_absent: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is known of them, for the document of a turn."""
        held = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in held
            if value not in ((), None)
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; keys that are not ours are left out."""
        known: dict[str, Any] = {}
        for one in fields(cls):
            if one.name in document:
                value: Any = document[one.name]
                known[one.name] = tuple(value) if one.name in _LISTS else value
        return cls(**known)


_LISTS: Final = frozenset({"prompt_ids", "ids", "logprobs", "mask"})
