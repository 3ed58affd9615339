"""The one list of the built-in rewards that `score` computes for every run, inline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.component import Component
from orchtrace_otel.rewards.families import STRUCTURAL
from orchtrace_otel.rewards.topology import topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchtrace_otel.rewards.facts import Facts

COMPONENTS: Final[tuple[Component, ...]] = STRUCTURAL
"""Every built-in reward and metric, in the order in which they are written."""

TOPOLOGY: Final[Callable[[Facts], str | None] | None] = topology
"""What says which of `TOPOLOGIES` the team had; None from it leaves what the trace says."""
