"""What built-in rewards share of one trace: each part is read once, when first asked for.

`Facts` holds no result. A reward that several others build on is a function of
`Facts`, asked through `Facts.share`, which keeps what it gave.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import compress
from operator import lt
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from orchtrace_otel.rewards.answer import find_answer, is_stop_useful
from orchtrace_otel.rewards.graph import Graph, is_delegation, longest_chains, read_graph
from orchtrace_otel.rewards.outcome import Outcome, find_outcome
from orchtrace_otel.rewards.tokens import read_tokens
from orchtrace_otel.rewards.upstream import Upstream, reaching, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from orchtrace_otel.model import Event, Trace

T = TypeVar("T")

_UNREAD: Final = object()

_UNCAUSAL = frozenset({"cyclic", "duplicate_ids"})
_UNTIMED = frozenset({"skewed", "duplicate_ids"})


class _once(Generic[T]):  # noqa: N801 - it is used as a decorator
    """A property that is read once; `cached_property` of Python 3.11 takes a lock as well."""

    def __init__(self, read: Callable[[Facts], T]) -> None:
        self._read = read
        self._name = read.__name__
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, facts: None, owner: type[Facts]) -> Self: ...
    @overload
    def __get__(self, facts: Facts, owner: type[Facts]) -> T: ...
    def __get__(self, facts: Facts | None, owner: type[Facts]) -> Self | T:
        if facts is None:
            return self
        found = facts.__dict__[self._name] = self._read(facts)
        return found


class Facts:
    """One trace, and what was read from it so far.

    Positions are those in `trace.events`; `graph.causes[position]` are positions too.
    Ask `is_causal` before what needs causes, `is_timed` before what needs times: where
    they are false the value is absent.

    Args:
        trace: The trace; nothing of it is changed.
        outcome: What the run was worth, where the caller knows it better than the trace.
        graph: Its graph, where the caller has read it already.
    """

    def __init__(
        self, trace: Trace, outcome: Outcome | None = None, graph: Graph | None = None
    ) -> None:
        self.trace = trace
        self.events: Sequence[Event] = trace.events
        self._shared: dict[object, object] = {}
        if outcome is not None:
            self.settle(outcome)
        if graph is not None:
            self.__dict__["graph"] = graph

    def settle(self, outcome: Outcome | None) -> None:
        """Say what the run was worth, where that is known only after some of it was read."""
        self.__dict__["outcome"] = outcome

    def share(self, read: Callable[[Facts], T]) -> T:
        """Return what `read` gives for these facts, computed once.

        Example:
            >>> from orchtrace_otel.model import Trace
            >>> calls = []
            >>> facts = Facts(Trace("run", "task", ()))
            >>> facts.share(calls.append) is facts.share(calls.append), len(calls)
            (True, 1)
        """
        found: Any = self._shared.get(read, _UNREAD)
        if found is _UNREAD:
            self._shared[read] = found = read(self)
        return found  # type: ignore[no-any-return]  # what `read` gave

    @_once
    def graph(self) -> Graph:
        """Causes, times and own work, as integers."""
        return read_graph(self.trace)

    @_once
    def by_type(self) -> Mapping[str, Sequence[int]]:
        """Positions of the events of each type; none for a type that does not occur."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for place, event in enumerate(self.events):
            found[event.type].append(place)
        return found

    @_once
    def delegations(self) -> Sequence[int]:
        """Positions of decisions that give work to an agent that lives."""
        events = self.events
        decisions = self.by_type.get("orchestrator_decision", ())
        return [at for at in decisions if is_delegation(events[at])]

    @_once
    def tokens(self) -> Mapping[int, int] | None:
        """Tokens by position; None where some are unknown."""
        return read_tokens(self.trace)

    @_once
    def flags(self) -> frozenset[str]:
        """Why values are absent: `cyclic skewed duplicate_ids tokens_unknown`."""
        flags = self.graph.flags
        return flags if self.tokens is not None else flags | {"tokens_unknown"}

    @_once
    def closings(self) -> Mapping[int, int]:
        """Position of what closes each opening that is closed; the stop closes the run's."""
        return {opened: closed for _, _, _, opened, closed, _ in self.graph.intervals}

    @_once
    def is_causal(self) -> bool:
        """Whether causes can be followed: no cycle, and ids are unique."""
        return _UNCAUSAL.isdisjoint(self.graph.flags)

    @_once
    def is_timed(self) -> bool:
        """Whether times can be counted with: something lasts, nothing is skewed."""
        return self.graph.timed and _UNTIMED.isdisjoint(self.graph.flags)

    @_once
    def answer(self) -> int | None:
        """Position of the answer; None where there is none."""
        return find_answer(self.events, self.graph)

    @_once
    def is_stop_useful(self) -> bool:
        """Whether the stop has tokens of its own and did not fail."""
        return is_stop_useful(self.events, self.graph)

    @_once
    def upstream(self) -> Upstream | None:
        """What led to the answer, or to a useful stop without one; None where none is known."""
        target = self.graph.stop if self.answer is None and self.is_stop_useful else self.answer
        return None if target is None or not self.is_causal else walk(self.graph, target)

    @_once
    def led(self) -> Sequence[bool]:
        """Whether each event led to the answer, by position; the answer and a useful stop did."""
        if self.answer is None or not self.is_causal:
            found = [False] * len(self.events)
        else:
            found = reaching(self.graph, self.answer)
        if self.is_stop_useful and self.graph.stop is not None:
            found[self.graph.stop] = True
        return found

    @_once
    def useful(self) -> frozenset[int]:
        """The same as positions."""
        return frozenset(compress(range(len(self.events)), self.led))

    @_once
    def chains(self) -> Sequence[int] | None:
        """Own work along the longest chain to each event, in ns; None where unknown."""
        return longest_chains(self.graph) if self.is_timed and self.is_causal else None

    @_once
    def effects(self) -> Sequence[Sequence[int]]:
        """Positions that each event leads to: `graph.causes` the other way round."""
        found: list[list[int]] = [[] for _ in self.events]
        for place, causes in enumerate(self.graph.causes):
            for cause in causes:
                found[cause].append(place)
        return found

    @_once
    def depths(self) -> Sequence[int]:
        """Events on the longest way of causes to each, itself included; 0 behind a cycle."""
        graph, depths = self.graph, [0] * len(self.events)
        for place in graph.order:
            depths[place] = 1 + max([depths[cause] for cause in graph.causes[place]], default=0)
        return depths

    def in_order(self, places: Iterable[int]) -> Sequence[int]:
        """Positions in order of time; of one moment causes come before what they led to."""
        events = self.events
        found = sorted(places, key=lambda at: (events[at].t, events[at].id))
        times = [events[at].t for at in found]
        if all(map(lt, times, times[1:])):
            return found  # where clocks are fine, and nobody needs to ask for causes
        depths = self.depths
        return sorted(found, key=lambda at: (events[at].t, depths[at], events[at].id))

    @_once
    def outcome(self) -> Outcome | None:
        """What the run was worth to its team; None where that is not known."""
        return find_outcome(self.trace)
