"""What is captured, what is taken out of it, where it goes and how much of it may be kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.settings import CAPTURE_MODES, NO_CONTENT

SPAN_MODES: Final = frozenset({"SPAN_ONLY", "SPAN_AND_EVENT"})
STORE_MODES: Final = frozenset({"EVENT_ONLY", "SPAN_AND_EVENT"})

Redact: TypeAlias = Callable[[str], str]
Policy: TypeAlias = Mapping[str, str] | Callable[[str | None], Mapping[str, str]]

POLICY_KEYS: Final = ("version", "tokenizer", "chat_template", "logprobs_kind")
"""What a policy may say of itself beside what its server says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Settings of content; `configure(content=...)` takes one, or a mapping of its fields.

    Attributes:
        mode: One of `CAPTURE_MODES`.
        store: Folder or URL of the store; `ORCHTRACE_STORE` unless given.
        redact_keys: Names whose values are taken out, whatever their case, `-` and `_`;
            beside those that are known, such as `password` and `authorization`.
        redact_patterns: Regular expressions; what matches is taken out. Beside those that
            are known, such as bearer tokens, and passwords in URLs.
        redact: Called with each text, returns what may be kept of it. Where it raises or
            returns no text, nothing of the text is kept.
        redact_defaults: Whether the known keys and patterns are taken out.
        policy: Facts of the policy that its server does not tell, `POLICY_KEYS` to texts; or
            called with the model's name for each turn, returns them.
        item_bytes: What is kept of one message, argument or result.
        run_bytes: What is kept of one run.
        span_bytes: What one attribute of a span may hold.
        queue_bytes: What may wait for the store.
        segment_bytes: Size from which a segment is full.
        flush_seconds: Age at which a segment of a remote store is put down, full or not.
    """

    mode: str = NO_CONTENT
    store: str | Path | None = None
    redact_keys: Sequence[str] = ()
    redact_patterns: Sequence[str | re.Pattern[str]] = ()
    redact: Redact | None = None
    redact_defaults: bool = True
    policy: Policy | None = None
    item_bytes: int = 256 * 1_024
    run_bytes: int = 64 * 1_024 * 1_024
    span_bytes: int = 64 * 1_024
    queue_bytes: int = 32 * 1_024 * 1_024
    segment_bytes: int = 16 * 1_024 * 1_024
    flush_seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.mode not in CAPTURE_MODES:
            known = ", ".join(CAPTURE_MODES)
            msg = f"content must be one of {known}, got {self.mode!r}"
            raise ConfigError(msg)
        store = cast("object", self.store)
        if store is not None and (not isinstance(store, (str, Path)) or not str(store)):
            msg = f"content needs store to be a folder or a URL, got {store!r}; or leave it out"
            raise ConfigError(msg)
        for name in _SIZES:
            size: object = getattr(self, name)
            kind = (int, float) if name == "flush_seconds" else int
            if isinstance(size, bool) or not isinstance(size, kind) or not size > 0:
                what = "number" if name == "flush_seconds" else "whole number"
                msg = f"content needs {name} to be a {what} above 0, got {size!r}"
                raise ConfigError(msg)
        if not isinstance(cast("object", self.redact_defaults), bool):
            msg = f"content needs redact_defaults to be True or False, got {self.redact_defaults!r}"
            raise ConfigError(msg)
        self._check_redaction()
        self._check_policy()

    def _check_redaction(self) -> None:
        for name in ("redact_keys", "redact_patterns"):
            given: Any = getattr(self, name)
            kinds = (str,) if name == "redact_keys" else (str, re.Pattern)
            is_list = issubclass(type(given), (list, tuple, set, frozenset))
            if not is_list or not all(isinstance(one, kinds) for one in given):
                msg = f"content needs {name} to be a list of texts, got {given!r}"
                raise ConfigError(msg)
        for pattern in self.redact_patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                msg = f"content needs redact_patterns that compile, got {pattern!r}: {error}"
                raise ConfigError(msg) from error
        if self.redact is not None and not callable(self.redact):
            msg = f"content needs redact to be callable with a text, got {self.redact!r}"
            raise ConfigError(msg)

    def _check_policy(self) -> None:
        policy: Any = self.policy
        if policy is None or callable(policy):
            return
        is_one = issubclass(type(policy), Mapping)
        facts: dict[object, object] = dict(policy) if is_one else {"": policy}
        if not facts.keys() <= set(POLICY_KEYS) or not _are_texts(facts.values()):
            known = ", ".join(POLICY_KEYS)
            msg = f"content needs policy to be a mapping of {known} to texts, got {policy!r}"
            raise ConfigError(msg)

    @property
    def on_spans(self) -> bool:
        """Whether content is written on spans."""
        return self.mode in SPAN_MODES

    @property
    def in_store(self) -> bool:
        """Whether content goes to a store."""
        return self.mode in STORE_MODES


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


_SIZES: Final = (
    "item_bytes",
    "run_bytes",
    "span_bytes",
    "queue_bytes",
    "segment_bytes",
    "flush_seconds",
)


def as_capture(given: str | Mapping[str, Any] | Capture) -> Capture:
    """Return what `configure(content=...)` was given: a mode, the fields by name, or all of it.

    Raises:
        ConfigError: If it is something else, or a field does not hold what it must.

    Example:
        >>> as_capture({"mode": "EVENT_ONLY", "store": "content/"}).in_store
        True
    """
    if isinstance(given, Capture):
        return given
    if isinstance(given, str):
        mode = given.strip().upper()
        return Capture(mode=mode if mode in CAPTURE_MODES else given)
    known = [one.name for one in fields(Capture)]
    odd = _odd(given, known)
    if odd:
        msg = (
            f"content must be one of {', '.join(CAPTURE_MODES)} or a mapping with keys of "
            f"{', '.join(known)}, got {odd}"
        )
        raise ConfigError(msg)
    return Capture(**given)


def _odd(given: Any, known: Sequence[str]) -> str:
    """Return what is wrong with a mapping: its unknown keys, or what it is instead."""
    kind: type[object] = given.__class__
    if not issubclass(kind, Mapping):
        return repr(given)
    return ", ".join(repr(key) for key in given if key not in known)
