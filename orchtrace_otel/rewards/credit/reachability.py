"""Reachability: an event that led to the answer gets the whole reward, any other nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream


def reachability(upstream: Upstream, _facts: Facts) -> Shares:
    """1[e led to z]: no share, but a bound on who can have mattered.

    Work in vain and failed branches get 0. It is sound as far as edges are complete.
    """
    return [1 if steps >= 0 else 0 for steps in upstream.hops], 1
