"""R2: the reward of one agent: what the team loses without it, and how it did in its group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards.groups import EPSILON, Group, Groups

Place: TypeAlias = tuple[str, str]
"""A run, or a turn of one, and an agent."""

_FAMILIES = {"task": ("R1", "team"), "agent": ("R2", "agent"), "role": ("R3", "role")}


def difference(value: float, without: float) -> float:
    """Return D_a = G(z) - G(z without a): what the team was worth more for an agent's part.

    Example:
        >>> difference(1.0, 0.25)
        0.75
    """
    return value - without


def normalised(rewards: Mapping[Place, float], epsilon: float = EPSILON) -> dict[Place, float]:
    """Return (R - mean) / (sample sigma + epsilon) among all rewards of the same agent.

    Dr. MAS (arXiv 2602.08847): agents whose rewards lie at different heights do not drown
    each other. All must be of one task. Where its code lets the raw reward of a group of one
    through, here it is 0, as for a group of equals: such a group says nothing.

    Args:
        rewards: Each agent's reward in each run, or in each of its turns.
        epsilon: Added to sigma.

    Example:
        >>> turns = {(f"turn {n}", "worker"): float(n < 4) for n in range(6)}
        >>> found = normalised(turns)
        >>> round(found["turn 0", "worker"], 4), round(found["turn 5", "worker"], 4)
        (0.6455, -1.291)
    """
    groups: defaultdict[str, Group] = defaultdict(Group)
    for (_, agent), value in rewards.items():
        groups[agent].add(value)
    return {place: groups[place[1]].grpo(value, epsilon) for place, value in rewards.items()}


def advantages(groups: Groups, trace: Trace) -> list[Reward]:
    """Return a run's advantages as rewards: of the team (R1), its agents (R2) and roles (R3).

    Args:
        groups: That observed this run and the others of its task.
        trace: The run; without an outcome it has none.

    Example:
        >>> groups = Groups()
        >>> won, lost = (Trace(f"r{n}", "q", (), rewards={"task": n}) for n in (1, 0))
        >>> groups.observe(won), groups.observe(lost)
        (True, True)
        >>> [(one.component, one.n, round(one.value, 4)) for one in advantages(groups, won)]
        [('advantage_grpo', 2, 0.7071), ('advantage_rloo', 2, 1.0)]
    """
    found: list[Reward] = []
    for key, values in groups.advantages(trace).items():
        family, unit = _FAMILIES[key[0]]
        target = key[2] if len(key) > 2 else None  # noqa: PLR2004 - kind, task and name
        for method, value in values.items():
            component = f"advantage_{method}"
            found.append(
                Reward(
                    id=f"{trace.trace_id}:{component}:{unit}:{target or ''}",
                    component=component,
                    value=value,
                    family=family,
                    unit=unit,
                    target=target,
                    estimator="structural",
                    n=groups[key].n,
                    version="1",
                )
            )
    return found
