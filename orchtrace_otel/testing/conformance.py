"""What every adapter must do: subclass `AdapterConformance` in its tests.

An author makes the adapter, builds a few small teams of the framework on scripted
models, and says how such a team is run; the checks are inherited. What a framework
cannot do is not declared, and its checks are skipped in plain sight. No check can be
deleted or overridden in silence. docs/add-an-adapter.md goes through it step by step.
"""

from __future__ import annotations

from abc import ABC

from orchtrace_otel.testing._hook_checks import HookChecks
from orchtrace_otel.testing._host_checks import HostChecks
from orchtrace_otel.testing._kit import ConformanceError
from orchtrace_otel.testing._record_checks import RecordChecks
from orchtrace_otel.testing._replay_checks import ReplayChecks
from orchtrace_otel.testing._teams import CANARY, TOKENS, Replayed
from orchtrace_otel.testing._tree_checks import TreeChecks
from orchtrace_otel.testing._way_checks import WayChecks

__all__ = ["CANARY", "TOKENS", "AdapterConformance", "ConformanceError", "Replayed"]


class AdapterConformance(
    TreeChecks, RecordChecks, HostChecks, WayChecks, HookChecks, ReplayChecks, ABC, kit=True
):
    """All that an adapter must do; what its author fills in is said in `AdapterTeams`.

    Example:
        >>> class TestMine(AdapterConformance):
        ...     can_invoke = True
        >>> sorted(TestMine.__abstractmethods__)
        ['failing', 'make_adapter', 'single']
    """
