"""Barriers, of which a checkpoint may hold names that came a step later.

LangGraph saves a checkpoint while the next step runs, unless it is told to wait, and a barrier
gives it the very set to which that step adds. What the tasks wrote says who had come by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchtrace_langgraph._channels import Channels

_VALUES: Final = "channel_values"


def with_names(graph: Any, chain: Sequence[Any]) -> list[Any]:
    """Return a run's checkpoints, the first one first, with who had come to each barrier."""
    hosts: Mapping[str, Any] = graph.channels
    barriers = [name for name, is_barrier in Channels(hosts).gathering.items() if is_barrier]
    found: list[Any] = []
    come: dict[str, set[Any]] = {}
    for one in chain:
        values: dict[str, Any] = dict(one.checkpoint[_VALUES])
        for name in barriers:
            is_deferred = hasattr(hosts[name], "finished")
            names, is_open = (
                values.get(name, ((), False)) if is_deferred else (values.get(name, ()), True)
            )
            seen = come.setdefault(name, {*names})
            if name in values:
                values[name] = ({*seen}, is_open) if is_deferred else {*seen}
            is_passed = is_open and seen == hosts[name].names
            written = {value for _, to, value in one.pending_writes or () if to == name}
            come[name] = written if is_passed else seen | written
        found.append(one._replace(checkpoint={**one.checkpoint, _VALUES: values}))
    return found
