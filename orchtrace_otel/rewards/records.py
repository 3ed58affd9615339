"""Records of built-in rewards on the stop: how they are told from those of users.

They are written as plain dicts, in the order of `Reward`'s fields: there may be one for
each agent and method, and a run's end is inside the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.model import Reward
    from orchtrace_otel.rewards.contract import Contract

_MARK: Final = ":="
"""Follows the run's id in the ids of built-in records; anyone can compute these again."""

CREDIT: Final = "credit_"
"""Before the method's name in the component of credit."""


def record(
    run_id: str, component: str, contract: Contract, value: float, target: str | None = None
) -> dict[str, Any]:
    """Return a built-in reward as the stop lists it.

    Example:
        >>> from orchtrace_otel.rewards.contract import Contract
        >>> record("run", "calm", Contract(version="1"), 0.5)["id"]
        'run:=calm'
    """
    unit = contract.unit
    found: dict[str, Any] = {
        "id": f"{run_id}{_MARK}{component}",
        "component": component,
        "value": value,
        "family": contract.family,
        "unit": unit,
    }
    if target is not None:
        found["id"] = f"{run_id}{_MARK}{component}:{unit}:{target}"
        found["target"] = target
    found["estimator"] = contract.estimator
    found["provisional"] = False
    if contract.version is not None:
        found["version"] = contract.version
    return found


def is_builtin(found: Mapping[str, Any], run_id: str) -> bool:
    """Whether a record was computed by this project from the trace, and can be again."""
    identity = found.get("id")
    return isinstance(identity, str) and is_builtin_id(identity, run_id)


def is_credit(reward: Reward, run_id: str) -> bool:
    """Whether a reward is a share of the run's outcome, and none that is only called like one."""
    return reward.component.startswith(CREDIT) and is_builtin_id(reward.id, run_id)


def is_builtin_id(identity: str, run_id: str) -> bool:
    """The same by the record's id.

    Example:
        >>> is_builtin_id("run:=calm", "run"), is_builtin_id("run:mine:calm", "run")
        (True, False)
    """
    return identity.startswith(run_id + _MARK)
