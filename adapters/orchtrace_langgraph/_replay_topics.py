"""Topics that keep what was written, of which a checkpoint may hold what came a step later.

Such a topic gives a checkpoint the very list to which the next step adds, as a barrier does its
set. The last checkpoint is as it was: nobody wrote after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from orchtrace_langgraph._channels import is_kept_topic

_VALUES: Final = "channel_values"


def with_topics(graph: Any, chain: Sequence[Any]) -> list[Any]:
    """Return a run's checkpoints, the first one first, with what each topic held by then."""
    hosts: Mapping[str, Any] = graph.channels
    topics = [name for name, host in hosts.items() if is_kept_topic(host)]
    if not topics:
        return [*chain]
    found: list[Any] = []
    held: dict[str, int] = {}
    for one in reversed(chain):
        values: dict[str, Any] = dict(one.checkpoint[_VALUES])
        for name in topics:
            if name in held:
                held[name] -= sum(
                    _many(value) for _, to, value in one.pending_writes or () if to == name
                )
            if name in values:
                left = held.setdefault(name, len(values[name]))
                values[name] = values[name][: max(left, 0)]
        found.append(one._replace(checkpoint={**one.checkpoint, _VALUES: values}))
    return found[::-1]


def _many(value: object) -> int:
    """Return how many things one write adds: a list adds each of its own."""
    return len(cast("list[object]", value)) if isinstance(value, list) else 1
