"""Content into the rows of turns, for tables that are read where no store is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchtrace_otel.content.turn import read_turn
from orchtrace_otel.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchtrace_otel.content.store import Store
    from orchtrace_otel.content.turn import TurnContent
    from orchtrace_otel.model import Json


def inline(turns: Iterable[Json], store: Store) -> int:
    """Fill the content columns of rows of the turns table, where there is content.

    Returns:
        How many of them refer to content that the store lacks; these stay without.
    """
    missing = 0
    for row in turns:
        if "content_ref" not in row:
            continue
        try:
            content = read_turn(store, row["content_ref"])
        except ContentError:
            missing += 1
            continue
        row.update({name: value for name, value in _columns(content).items() if value})
    return missing


def _columns(content: TurnContent) -> dict[str, Any]:
    tokens = content.tokens
    return {
        "response_id": content.response_id,
        "policy_version": content.policy_version,
        "policy_version_min": content.policy_version,
        "policy_version_max": content.policy_version,
        "messages": list(content.prompt),
        "tools": list(content.tools),
        "completion": list(content.completion),
        "prompt_ids": list(tokens.prompt_ids),
        "response_ids": list(tokens.ids),
        "response_mask": list(tokens.mask),
        "logprobs": list(tokens.logprobs),
        "token_provenance": tokens.provenance,
        "sampling": dict(content.parameters),
        "redactions": list(content.flags),
    }
