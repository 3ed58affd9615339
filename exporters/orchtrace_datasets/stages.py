"""Stages of a team whose agents are updated one after the other (TeamTR).

A run was made by one version of each agent's policy. When one agent is updated, what the
others learned from older runs no longer holds: a run is stale for an agent if any *other*
agent was updated since (TeamTR, arXiv 2605.15207). The stage, `Run.stage`, counts updates
of any agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchtrace_otel.datasets import Call, Run
from orchtrace_otel.errors import ConfigError, ContentError

SETTINGS: Final[Mapping[str, str]] = {
    "current": "`agent=version,...`, the versions of today, or `newest`, as the runs show; a "
    "call of which another agent's version differs is left out as stale; default: none is",
}


def versions(run: Run) -> dict[str, str]:
    """Return the newest policy version of each agent in a run, where somebody said it.

    Example: `{"planner": "step-400", "worker": "step-12"}`.
    """
    found: dict[str, str] = {}
    for call in run.calls:
        try:
            version = call.policy_version
        except ContentError:
            continue
        if version is not None:
            found[call.agent] = version
    return found


def current(text: str, newest: Mapping[str, str]) -> Mapping[str, str]:
    """Read the setting `current`; `newest` are the versions that the runs show.

    Example:
        >>> current("planner=step-400,worker=step-12", {})
        {'planner': 'step-400', 'worker': 'step-12'}

    Raises:
        ConfigError: If it is something else.
    """
    if text == "newest":
        return newest
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        agent, equals, version = part.partition("=")
        if not equals:
            msg = f"current must be newest or agent=version,..., got {text!r}"
            raise ConfigError(msg)
        found[agent.strip()] = version.strip()
    return found


def is_stale(call: Call, of_run: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether another agent than the call's was updated since its run."""
    return any(
        version != now[agent]
        for agent, version in of_run.items()
        if agent != call.agent and agent in now
    )
