"""The causal graph of a trace as integers: what every structural measure reads.

Times are nanoseconds, events are their positions in `Trace.events`. Everything is a
sum, a maximum or a set of integers, so the order in which a trace lists its events
and edges changes no result. Time and space are O(V + E), and O(n log n) for sorting
intervals; nothing recurses.

The rules, in one place:

- An activation or a tool call lasts from its `.open` to its `.close`; the activation
  that the stop names lasts until the stop. An event with `duration_s` lasts that long.
- *Own work* of an interval is its duration without the union of the intervals inside
  it, of whatever kind. Someone who waits does no work, and a human's time is waiting.
- An interval lies inside the activation it names. Where its opening is caused by a
  tool call or a lasting event of that activation which goes on until after it ends,
  it lies inside that one: a tool that runs an agent does not work while the agent does.
- Own work is done before the close of its interval, after all that leads there.
- `temporal` edges are order, not cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.model import Event, Trace

NANOSECONDS: Final = 1e9

_WAITING: Final = frozenset({"human_intervention"})


class Interval(NamedTuple):
    """Something that takes time, between two events or during one.

    Attributes:
        name: Id of its span; of its event, where it is one event.
        opened: Position of the event that begins it.
        closed: Position of the event that ends it, perhaps the same.
        owner: Name of the interval around it, None where there is none.
    """

    name: str
    opened: int
    closed: int
    owner: str | None


@dataclass(frozen=True, slots=True)
class Graph:
    """What a trace says about causes and time; read it with `read_graph`.

    Attributes:
        begin: When each event happened, in nanoseconds since the run began.
        finish: When each was over: later than `begin` where it took time.
        own_work: Own work that each event completes, in nanoseconds.
        effects: Positions that each event leads to.
        order: Positions, causes first; shorter than the trace where it has a cycle.
        stop: Position of the event that ended the run.
        stop_causes: Positions that lead to the stop.
        timed: Whether the trace says how long anything took.
        peak: How many pieces of own work went on at once.
        flags: Why values are absent: `cyclic`, `skewed`, `duplicate_ids`.
    """

    begin: Sequence[int]
    finish: Sequence[int]
    own_work: Sequence[int]
    effects: Sequence[Sequence[int]]
    order: Sequence[int]
    stop: int | None
    stop_causes: Sequence[int]
    timed: bool
    peak: int
    flags: frozenset[str]


def read_graph(trace: Trace) -> Graph:
    """Read the causal graph of `trace`.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> events = (
        ...     Event("a", 0, "aggregate", "lead", {"duration_s": 2}),
        ...     Event("b", 2, "message", "lead"),
        ... )
        >>> graph = read_graph(Trace("run", "task", events, (Edge("a", "b", "causal"),)))
        >>> graph.finish, graph.own_work, graph.order
        ([2000000000, 2000000000], [2000000000, 0], [0, 1])
    """
    return _Reader(trace).graph()


class _Reader:
    """The steps of `read_graph`, over lists that they share."""

    def __init__(self, trace: Trace) -> None:
        self.events = trace.events
        self.edges = trace.edges
        self.flags: set[str] = set()
        self.positions = {event.id: place for place, event in enumerate(trace.events)}
        if len(self.positions) < len(trace.events):
            self.flags.add("duplicate_ids")
        self.begin = self._begin()
        self.finish = self.begin.copy()
        self.stop = find_stop(trace.events)

    def graph(self) -> Graph:
        intervals = self._intervals()
        effects, stop_causes, inside = self._follow_edges(intervals)
        own_work, peak = self._divide(intervals, inside)
        order = _causes_first(effects)
        if len(order) < len(self.events):
            self.flags.add("cyclic")
        return Graph(
            begin=self.begin,
            finish=self.finish,
            own_work=own_work,
            effects=effects,
            order=order,
            stop=self.stop,
            stop_causes=stop_causes,
            timed=bool(intervals),
            peak=peak,
            flags=frozenset(self.flags),
        )

    def _begin(self) -> list[int]:
        try:
            return [round(event.t * NANOSECONDS) for event in self.events]
        except (TypeError, ValueError, OverflowError):
            # Not a finite number: documents of others may hold 1e999.
            self.flags.add("skewed")
            return [nanoseconds(event.t) or 0 for event in self.events]

    def _intervals(self) -> list[Interval]:
        found: list[Interval] = []
        add = found.append
        opening = self.positions.get
        for place, event in enumerate(self.events):
            identity = event.id
            if identity[-6:] == ".close":
                name = identity[:-6]
                opened = opening(name + ".open")
                if opened is not None:
                    add(Interval(name, opened, place, _owner(name, self.events[opened].keys)))
                    continue
            if "duration_s" in event.keys and self._lasts(place, event):
                add(Interval(identity, place, place, _owner(identity, event.keys)))
        root = self._root()
        if root is not None:
            add(root)
        return found

    def _lasts(self, place: int, event: Event) -> bool:
        """Whether an event of its own took time; its end is noted."""
        if event.id[-5:] == ".open" and event.id[:-5] + ".close" in self.positions:
            return False
        duration = nanoseconds(event.keys["duration_s"])
        if duration is None:
            self.flags.add("skewed")
            return False
        self.finish[place] += duration
        return True

    def _root(self) -> Interval | None:
        """The activation that only the stop closes."""
        if self.stop is None:
            return None
        name = self.events[self.stop].keys.get("activation")
        if not isinstance(name, str) or name + ".close" in self.positions:
            return None
        opened = self.positions.get(name + ".open")
        return None if opened is None else Interval(name, opened, self.stop, None)

    def _follow_edges(
        self, intervals: Sequence[Interval]
    ) -> tuple[list[list[int]], list[int], dict[str, Interval]]:
        """Effects of each event, causes of the stop, and what lies inside tools and points."""
        begin, get, stop = self.begin, self.positions.get, self.stop
        effects: list[list[int]] = [[] for _ in self.events]
        stop_causes: list[int] = []
        opened = {interval.opened: interval for interval in intervals}
        inside: dict[str, Interval] = {}
        for edge in self.edges:
            source, target = get(edge.src), get(edge.dst)
            if source is None or target is None or edge.type == "temporal":
                continue
            effects[source].append(target)
            if begin[target] < begin[source]:
                self.flags.add("skewed")
            if target == stop:
                stop_causes.append(source)
            elif target in opened and source in opened:
                self._nest(opened[source], opened[target], inside)
        return effects, stop_causes, inside

    def _nest(self, outer: Interval, inner: Interval, inside: dict[str, Interval]) -> None:
        """Note that `inner` went on inside the tool call or lasting event `outer`, where it did."""
        of_activation = outer.opened != outer.closed and not self._is_tool(outer)
        if outer is inner or of_activation or outer.owner != inner.owner:
            return
        if self.finish[inner.closed] > self.finish[outer.closed]:
            return
        former = inside.get(inner.name)
        if former is None or self._innermost(outer) > self._innermost(former):
            inside[inner.name] = outer

    def _is_tool(self, interval: Interval) -> bool:
        return self.events[interval.opened].type == "tool_call"

    def _innermost(self, interval: Interval) -> tuple[int, str]:
        return self.begin[interval.opened], interval.name

    def _divide(
        self, intervals: Sequence[Interval], inside: Mapping[str, Interval]
    ) -> tuple[list[int], int]:
        """Own work by the event that completes it, and how much went on at once."""
        begin, finish = self.begin, self.finish
        parts: dict[str, list[tuple[int, int]]] = {}
        for name, opened, closed, owner in intervals:
            around = inside[name].name if name in inside else owner
            if around is not None:
                parts.setdefault(around, []).append((begin[opened], finish[closed]))
        own_work = [0] * len(self.events)
        starts: list[int] = []
        ends: list[int] = []
        for name, opened, closed, _ in intervals:
            low, high = begin[opened], finish[closed]
            if high < low:
                self.flags.add("skewed")
            elif self.events[opened].type not in _WAITING:
                for start, end in _gaps(low, high, parts.get(name)):
                    own_work[closed] += end - start
                    starts.append(start)
                    ends.append(end)
        return own_work, _peak(starts, ends)


def nanoseconds(seconds: Any) -> int | None:
    """`seconds` in nanoseconds; None where it is no finite number.

    Example:
        >>> nanoseconds(0.25), nanoseconds(float("nan")), nanoseconds("1")
        (250000000, None, None)
    """
    if not isinstance(seconds, int | float):
        return None
    try:
        return round(seconds * NANOSECONDS)
    except (ValueError, OverflowError):
        return None


def find_stop(events: Sequence[Event]) -> int | None:
    """Position of the event that ended the run; the latest, should there be several."""
    last: int | None = None
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        if event.type != "orchestrator_decision" or not _is_stop(event.keys):
            continue
        if place == len(events) - 1:
            return place
        if last is None or (event.t, event.id) > (events[last].t, events[last].id):
            last = place
    return last


def _is_stop(keys: Mapping[str, Any]) -> bool:
    # Others know no verbs; the sheet has them write decision "stop" and a reason.
    return keys.get("verb") == "stop" or keys.get("decision") == "stop" or "stop_reason" in keys


def _owner(name: str, keys: Mapping[str, Any]) -> str | None:
    """The activation around an interval: its `parent` for activations, else the one it names."""
    owner = keys.get("activation")
    if owner == name:
        owner = keys.get("parent")
    return owner if isinstance(owner, str) else None


def _gaps(low: int, high: int, parts: list[tuple[int, int]] | None) -> list[tuple[int, int]]:
    """What `parts` leave of the time from `low` to `high`, without empty pieces.

    Example:
        >>> _gaps(0, 10, [(2, 4), (3, 5), (9, 12)])
        [(0, 2), (5, 9)]
    """
    if parts is None:
        return [(low, high)] if low < high else []
    if len(parts) > 1:
        parts.sort()
    left: list[tuple[int, int]] = []
    for start, end in parts:
        if start >= high:
            break
        if start > low:
            left.append((low, start))
        low = max(low, end)
    if low < high:
        left.append((low, high))
    return left


def _peak(starts: list[int], ends: list[int]) -> int:
    """The greatest number of pieces at one time; one that ends makes room for one that starts.

    Example:
        >>> _peak([0, 1, 2], [2, 3, 4])
        2
    """
    starts.sort()
    ends.sort()
    over = peak = 0
    for begun, start in enumerate(starts, 1):
        while ends[over] <= start:
            over += 1
        peak = max(peak, begun - over)
    return peak


def _causes_first(effects: Sequence[Sequence[int]]) -> list[int]:
    """Positions so that causes stand before effects; those on and behind a cycle are left out.

    Example:
        >>> _causes_first([[], [0], [1, 0]])
        [2, 1, 0]
    """
    waiting = [0] * len(effects)
    for targets in effects:
        for target in targets:
            waiting[target] += 1
    order = [place for place, count in enumerate(waiting) if not count]
    for place in order:  # grows while it is read
        for target in effects[place]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order
