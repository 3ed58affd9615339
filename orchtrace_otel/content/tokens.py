"""Token ids and log probabilities, where they come from, and what they are worth.

A trainer may use them as the behaviour policy's own only where they are: `exact` ids
came from the server that sampled them, `retokenised` ones were made from text
afterwards and may differ, and what is `absent` is not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, cast

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

    def with_policy(self, policy: Mapping[str, str]) -> Tokens:
        """Return them with what is known of the policy: `tokenizer chat_template logprobs_kind`."""
        told: dict[str, Any] = {key: policy[key] for key in _OF_POLICY if key in policy}
        return replace(self, **told) if told and (self.ids or self.logprobs) else self

    def to_dict(self) -> dict[str, Any]:
        """Return what is known of them, for the document of a turn."""
        held = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: list(value) if name in _LISTS else value for name, value in held if value}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; keys that are not ours are left out."""
        known: dict[str, Any] = {
            name: tuple(value) if name in _LISTS else value
            for name, value in document.items()
            if name in _FIELDS
        }
        return cls(**known)


_FIELDS: Final = frozenset(one.name for one in fields(Tokens))
_LISTS: Final = frozenset({"prompt_ids", "ids", "logprobs", "mask"})
_OF_POLICY: Final = ("tokenizer", "chat_template", "logprobs_kind")

_PROMPT_IDS: Final = ("prompt_token_ids", "input_token_ids", "input_ids")
_IDS: Final = ("token_ids", "completion_token_ids", "response_token_ids", "output_ids")
_ID_PREFIX: Final = "token_id:"
"""How vLLM writes an id in the place of a token's text, where it was asked to."""


def of_answer(*told: Any) -> Tokens:
    """Return the tokens that a server's answer tells of.

    Understands what OpenAI's servers say (`logprobs.content`), what vLLM adds
    (`prompt_token_ids`, `token_ids`, tokens as `token_id:<id>`) and what SGLang adds
    (`meta_info.output_token_logprobs`, `output_ids`). Several ids or log probabilities that
    do not agree in number with each other are none.

    Args:
        told: Mappings and objects in which to look, such as the response, its first choice
            and a message's metadata; the first that says something counts.

    Example:
        >>> said = {"content": [{"logprob": -1}, {"logprob": -2}]}
        >>> choice = {"token_ids": [5, 6], "logprobs": said}
        >>> tokens = of_answer({"prompt_token_ids": [1]}, choice)
        >>> tokens.provenance, tokens.prompt_ids, tokens.ids, tokens.logprobs
        ('exact', (1,), (5, 6), (-1.0, -2.0))
    """
    places = [*told, *(inner for one in told if (inner := part(one, "meta_info")) is not None)]
    prompt_ids = _first(places, _PROMPT_IDS)
    ids = _first(places, _IDS)
    said, spelt = _logprobs(places)
    ids = ids or spelt
    if ids and said and len(ids) != len(said):
        said = ()
    if not ids:
        return Tokens(logprobs=said, why_absent="not given")
    return Tokens(
        provenance=EXACT,
        prompt_ids=prompt_ids,
        ids=ids,
        logprobs=said,
        mask=(1,) * len(ids),
    )


def version_of(*told: Any) -> str | None:
    """Return the version of the weights that an answer tells of, as SGLang does."""
    for one in told:
        for place in (one, part(one, "meta_info")):
            version = part(place, "weight_version")
            if isinstance(version, (str, int)) and not isinstance(version, bool):
                return str(version)
    return None


def part(place: Any, name: str) -> Any:
    """Return a part of a mapping or an object of a provider's library; None where there is none."""
    if place is None or isinstance(place, (str, int, float, list, tuple)):
        return None
    if isinstance(place, Mapping):
        held = cast("Mapping[str, Any]", place)
        return held.get(name)
    return getattr(place, name, None)


def _listed(given: Any) -> list[Any] | None:
    """Return the items of a list; None where it is none."""
    is_list: bool = given.__class__ in (list, tuple)
    return [*given] if is_list else None


def _first(places: Iterable[Any], names: Iterable[str]) -> tuple[int, ...]:
    found = ((part(place, name)) for name in names for place in places)
    return next((ids for one in found if (ids := _ids(one))), ())


def _ids(given: Any) -> tuple[int, ...]:
    told = _listed(given) or []
    held = tuple(one for one in told if type(one) is int and one >= 0)
    return held if len(held) == len(told) else ()


def _logprobs(places: Iterable[Any]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return log probabilities, and the ids that are told along with them."""
    for place in places:
        for pairs in _told(place):
            held = [*pairs]
            said = tuple(float(one) for one, _ in held if _is_number(one))
            if not held or len(said) != len(held):
                continue
            return said, _ids([given for _, given in held])
    return (), ()


def _told(place: Any) -> Iterator[Iterable[tuple[Any, Any]]]:
    """Return each list of log probabilities of an answer, with the id of each token or None."""
    triples = map(_listed, _listed(part(place, "output_token_logprobs")) or ())
    yield ((one[0], one[1]) for one in triples if one is not None and len(one) > 1)
    said = part(place, "logprobs")
    content = _listed(said) or _listed(part(said, "content")) or ()
    yield ((part(one, "logprob"), _spelt(part(one, "token"))) for one in content)
    bare = _listed(part(said, "token_logprobs")) or []
    tokens = _listed(part(said, "tokens")) or [None] * len(bare)
    yield ((one, _spelt(token)) for one, token in zip(bare, tokens, strict=False))


def _is_number(one: Any) -> bool:
    return isinstance(one, (int, float)) and not isinstance(one, bool) and math.isfinite(one)


def _spelt(token: Any) -> int | None:
    if isinstance(token, str) and token.startswith(_ID_PREFIX):
        digits = token.removeprefix(_ID_PREFIX)
        return int(digits) if digits.isdecimal() else None
    return None
