"""When the policies of agents were updated, as the runs themselves show it.

A version of an agent's policy that a run is the first to have, in order of the runs'
beginnings, is an update, except the agent's first. Runs that began with an older version
later, since a process was still busy with it, make none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Updates(NamedTuple):
    """Updates of all agents.

    Attributes:
        times: When each stage after the first one began, nanoseconds since 1970.
        newest: Each agent's newest version.
    """

    times: tuple[int, ...]
    newest: Mapping[str, str]


def updates(runs: Iterable[tuple[int, Mapping[str, str]]]) -> Updates:
    """Find the updates.

    Args:
        runs: When each began and its agents' versions, in order of their beginning.

    Example:
        >>> updates([(10, {"a": "1", "b": "1"}), (20, {"a": "2"}), (30, {"a": "1", "b": "2"})])
        Updates(times=(20, 30), newest={'a': '2', 'b': '2'})
    """
    seen: dict[str, list[str]] = {}
    times: list[int] = []
    for start, versions in runs:
        for agent, version in versions.items():
            known = seen.setdefault(agent, [])
            if version in known:
                continue
            if known and times[-1:] != [start]:
                times.append(start)
            known.append(version)
    return Updates(tuple(times), {agent: known[-1] for agent, known in seen.items()})
