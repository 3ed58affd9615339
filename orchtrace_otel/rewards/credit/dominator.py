"""Dominator: an event that every path to the answer goes through gets the whole reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream


def dominator(upstream: Upstream, _facts: Facts) -> Shares:
    """1[e is on every path from what has no cause to z]; the walk upstream tells."""
    return upstream.gates, 1
