"""Channels whose checkpoints hold what was written since, and not what they are: `DeltaChannel`.

In the copies of a run's checkpoints each holds its value, so that a replay needs no other
checkpoint than the one that it starts from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from orchtrace_langgraph._replay_record import Work

_VALUES: Final = "channel_values"


def delta_channels(graph: Any) -> dict[str, Any]:
    """Return a graph's channels of that kind."""
    channels: Mapping[str, Any] = graph.channels
    return {name: one for name, one in channels.items() if type(one).__name__ == "DeltaChannel"}


def with_values(
    chain: Sequence[Any], works: Mapping[int, list[Work]], saver: Any, deltas: Mapping[str, Any]
) -> list[Any]:
    """Return a run's checkpoints with the values of such channels.

    Args:
        chain: The checkpoints, the first one first.
        works: What the tasks of each step wrote, in the order in which it was applied.
        saver: The user's, which knows what was written before the run.
        deltas: The channels.
    """
    before = _history(saver, chain[0].config, [*deltas])
    now: dict[str, Any] = {}
    for name, kind in deltas.items():
        now[name] = kind.from_checkpoint(before[name].get("seed"))
        now[name].replay_writes(before[name]["writes"])
    found: list[Any] = []
    for one in chain:
        written = one.checkpoint["channel_versions"]
        values = {name: channel.get() for name, channel in now.items() if name in written}
        held = {**one.checkpoint, _VALUES: {**one.checkpoint[_VALUES], **values}}
        found.append(one._replace(checkpoint=held))
        step = works[one.metadata["step"] + 1]
        for name, channel in now.items():
            channel.update([value for work in step for to, value in work.writes if to == name])
    return found


def _history(saver: Any, config: Any, names: list[str]) -> Any:
    try:
        return saver.get_delta_channel_history(config=config, channels=names)
    except NotImplementedError:
        return asyncio.run(saver.aget_delta_channel_history(config=config, channels=names))
