"""Rewards by family, one file each: R1 outcome to R8 hybrid.

What a trace tells by itself is a `Component` that `score` computes for every run; the rest
are plain functions of what they need, and factories of reward functions for
`configure(rewards=...)`. Whatever a number needs and is not known makes it None.
"""

from __future__ import annotations

from typing import Final

from orchtrace_otel.rewards.component import Component
from orchtrace_otel.rewards.families.failures import error_amplification
from orchtrace_otel.rewards.families.orchestration.collapse import (
    serial_collapse,
    spurious_parallelism,
)
from orchtrace_otel.rewards.families.orchestration.communication import (
    message_delay,
    message_used,
    messages_used,
)
from orchtrace_otel.rewards.families.orchestration.parallel import balance, r_finish, r_parallel
from orchtrace_otel.rewards.families.orchestration.split import independence, overlap
from orchtrace_otel.rewards.families.orchestration.steps import critical_steps
from orchtrace_otel.rewards.families.tools import (
    tool_repeated,
    tool_succeeded,
    tool_used,
    tools_repeated,
    tools_succeeded,
    tools_used,
)

__all__ = ["STRUCTURAL"]

STRUCTURAL: Final[tuple[Component, ...]] = (
    critical_steps,
    balance,
    error_amplification,
    message_delay,
    overlap,
    r_parallel,
    r_finish,
    serial_collapse,
    spurious_parallelism,
    independence,
    messages_used,
    message_used,
    tool_succeeded,
    tool_used,
    tool_repeated,
    tools_succeeded,
    tools_used,
    tools_repeated,
)
"""What a trace tells of every family by itself, metrics first."""
