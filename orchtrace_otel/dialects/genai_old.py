"""Spans of the GenAI conventions by the names they had before, up to version 1.36.

The provider was `gen_ai.system`, tokens were those of prompt and completion, and the
first versions had no operation: a call of a model is what names a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign
from orchtrace_otel.dialects import genai
from orchtrace_otel.dialects.reading import word

NAME: Final = "genai_old"

SYSTEM: Final = "gen_ai.system"
PROMPT_TOKENS: Final = "gen_ai.usage.prompt_tokens"
REQUEST_TYPE: Final = "llm.request.type"
COMPLETION_TOKENS: Final = "gen_ai.usage.completion_tokens"

NUMBERS: Final = (PROMPT_TOKENS, COMPLETION_TOKENS)

RENAMED: Final[Mapping[str, str]] = {
    SYSTEM: a.PROVIDER,
    PROMPT_TOKENS: a.INPUT_TOKENS,
    COMPLETION_TOKENS: a.OUTPUT_TOKENS,
}

_OPERATIONS: Final[Mapping[str, str]] = {
    "chat.completions": a.CHAT,
    "text.completions": "text_completion",
    "completion": "text_completion",
}


def read(name: str, found: Mapping[str, Any], dialect: str = NAME) -> Foreign | None:
    """Return what a span says, None where it holds none of the older names."""
    if RENAMED.keys().isdisjoint(found):
        return None
    renamed = {RENAMED.get(key, key): value for key, value in found.items()}
    operation = word(found, a.OPERATION)
    if operation is not None:
        renamed[a.OPERATION] = _OPERATIONS.get(operation, operation)
    elif a.REQUEST_MODEL in found and REQUEST_TYPE not in found:
        renamed[a.OPERATION] = a.CHAT
    return genai.read(name, renamed, dialect)
