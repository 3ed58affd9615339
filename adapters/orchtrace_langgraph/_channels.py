"""What the channels of a graph do with what is written to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from orchtrace_langgraph._framework import find
from orchtrace_langgraph._graphs import BRANCH

_ROOT: Final = "__root__"
_JOIN: Final = "join:"
_TOPIC: Final = "langgraph.channels.topic:Topic"


class Channels:
    """What is known of the channels of one graph, which does not change from run to run.

    Attributes:
        names: All of them.
        gathering: Those that wait for several writers, and whether only the first writer of
            a name counts.
        keeping: Those of the state, and whether earlier writes stay part of the value.
        passing: Those that are empty again after a step in which nobody wrote to them.
    """

    __slots__ = ("gathering", "keeping", "names", "passing")

    def __init__(self, hosts: Mapping[str, Any]) -> None:
        self.names = dict.fromkeys(hosts).keys()
        self.gathering = _gathering(hosts)
        self.keeping = keeping(hosts)
        self.passing = _passing(hosts)


def _gathering(hosts: Mapping[str, Any]) -> dict[str, bool]:
    barrier = "langgraph.channels.named_barrier_value:NamedBarrierValue"
    barriers = (find(barrier), find(f"{barrier}AfterFinish"))
    deferred = find("langgraph.channels.last_value:LastValueAfterFinish")
    return {
        name: isinstance(host, barriers)
        for name, host in hosts.items()
        if isinstance(host, (*barriers, deferred))
    }


def keeping(hosts: Mapping[str, Any]) -> dict[str, bool]:
    """Return the channels of the state, and whether earlier writes stay part of the value."""
    reducers = [find("langgraph.channels.binop:BinaryOperatorAggregate")]
    reducers.append(find(_TOPIC))
    with suppress(ImportError, AttributeError):  # LangGraph before 1.2 has none
        reducers.append(find("langgraph.channels.delta:DeltaChannel"))
    kinds = cast("tuple[type[object], ...]", tuple(reducers))
    return {
        name: isinstance(host, kinds)
        for name, host in hosts.items()
        if name == _ROOT or not name.startswith(("__", BRANCH, _JOIN))
    }


def _passing(hosts: Mapping[str, Any]) -> frozenset[str]:
    kinds = (
        find("langgraph.channels.ephemeral_value:EphemeralValue"),
        find("langgraph.channels.any_value:AnyValue"),
    )
    topic = find(_TOPIC)
    return frozenset(
        name
        for name, host in hosts.items()
        if isinstance(host, kinds) or (isinstance(host, topic) and not host.accumulate)
    )


def is_kept_topic(host: object) -> bool:
    """Return whether a channel is a topic that keeps what was written in earlier steps."""
    return isinstance(host, find(_TOPIC)) and bool(cast("Any", host).accumulate)
