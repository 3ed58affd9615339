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
- An interval lies inside the activation it names. Where its opening follows from that of a
  tool call or a lasting event of that activation which goes on until after it ends, it
  lies inside that one (`nesting`): a tool that runs an agent does not work meanwhile.
- Own work is done before the close of its interval, after all that leads there.
- `temporal` edges are order, not cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from orchtrace_otel.rewards.nesting import Nesting, have_effects, overlap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.model import Event, Trace
    from orchtrace_otel.rewards.nesting import Interval

NANOSECONDS: Final = 1e9

_WAITING: Final = "human_intervention"

_MANY: Final = 10_000
"""Events from which on the causes of each are a tuple, which the garbage collector forgets.

Lists are faster, but of so many it would look through all, and through all that the host holds.
"""

_FEW: Final = 8
"""Causes of one event up to which they are a tuple then; it would be copied too often beyond."""

Part = TypeVar("Part", bound=tuple[Any, ...])


class Graph(NamedTuple):
    """What a trace says about causes and time; read it with `read_graph`.

    Attributes:
        begin: When each event happened, in nanoseconds since the run began.
        finish: When each was over: later than `begin` where it took time.
        own_work: Own work that each event completes, in nanoseconds.
        first: When the earliest event happened; 0 without events.
        last: When the latest was over; 0 without events.
        causes: Positions that lead to each event.
        order: Positions, causes first; shorter than the trace where it has a cycle.
        stop: Position of the event that ended the run.
        timed: Whether the trace says how long anything took.
        peak: How many pieces of own work went on at once.
        flags: Why values are absent: `cyclic`, `skewed`, `duplicate_ids`.
        positions: Position of each event, by its id.
        inside: Tool call or lasting event inside which an activation, a tool call or a
            lasting event of its activation went on: names of both.
        intervals: All that takes time.
    """

    begin: Sequence[int]
    finish: Sequence[int]
    first: int
    last: int
    own_work: Sequence[int]
    causes: Sequence[Sequence[int]]
    order: Sequence[int]
    stop: int | None
    timed: bool
    peak: int
    flags: frozenset[str]
    positions: Mapping[str, int]
    inside: Mapping[str, str]
    intervals: Sequence[Interval]


def read_graph(trace: Trace) -> Graph:
    """Read the causal graph of `trace`.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> events = (
        ...     Event("a", 0, "aggregate", "lead", {"duration_s": 2}),
        ...     Event("b", 2, "message", "lead"),
        ... )
        >>> graph = read_graph(Trace("run", "task", events, (Edge("a", "b", "causal"),)))
        >>> graph.finish, graph.own_work, list(graph.order)
        ([2000000000, 2000000000], [2000000000, 0], [0, 1])
    """
    return _Reader(trace).graph()


class _Reader:
    """The steps of `read_graph`, over lists that they share.

    They run for every run inside the host, so their loops keep to local names, and
    what only some traces have (tools, lasting events) costs the others nothing.
    """

    def __init__(self, trace: Trace) -> None:
        self.events = events = trace.events
        self.edges = trace.edges
        self.flags: set[str] = set()
        self.lasting: set[int] = set()
        self.positions: dict[str, int] = {}
        self.begin = self._begin()
        self.ordered = sorted(self.begin)
        self.finish = self.begin  # until something lasts
        self.stop = find_stop(events)

    def graph(self) -> Graph:
        intervals = self._intervals()
        causes, order = self._follow_edges()
        parts = _by_owner(intervals)
        inside = self._nest(intervals, parts, causes, order)
        if inside:
            intervals = [(*one[:5], inside.get(one[2], one[5])) for one in intervals]
            parts = _by_owner(intervals)
        own_work, peak = self._divide(intervals, parts)
        return Graph(
            self.begin,
            self.finish,
            self.ordered[0] if self.ordered else 0,
            max(self.finish, default=0),
            own_work,
            causes,
            order,
            self.stop,
            bool(intervals),
            peak,
            frozenset(self.flags),
            self.positions,
            inside,
            intervals,
        )

    def _begin(self) -> list[int]:
        try:
            return [round(event.t * NANOSECONDS) for event in self.events]
        except (TypeError, ValueError, OverflowError):
            # Not a finite number: documents of others may hold 1e999.
            self.flags.add("skewed")
            return [nanoseconds(event.t) or 0 for event in self.events]

    def _intervals(self) -> list[Interval]:
        """What takes time; positions are noted on the way."""
        events, begin, positions = self.events, self.begin, self.positions
        found: list[Interval] = []
        others: list[int] = []
        for place, event in enumerate(events):
            name = event.id
            positions[name] = place
            if name[-6:] == ".close":
                span = name[:-6]
                opened = positions.get(span + ".open")
                if opened is None:
                    others.append(place)
                else:
                    owner = owner_of(span, events[opened].keys)
                    found.append((begin[opened], begin[place], span, opened, place, owner))
            elif "duration_s" in event.keys:
                others.append(place)
        if len(positions) < len(events):
            self.flags.add("duplicate_ids")
            # Of what has one id the last counts, and may have come after what it opens.
            found, others = [], list(range(len(events)))
        if others:
            found += filter(None, map(self._other, others))
        root = self._root()
        return found if root is None else [*found, root]

    def _other(self, place: int) -> Interval | None:
        """What an event closes that stands before its opening, or that it is by itself."""
        event, begin = self.events[place], self.begin
        name = event.id
        span = name[:-6]
        opened = self.positions.get(span + ".open") if name[-6:] == ".close" else None
        if opened is not None:
            owner = owner_of(span, self.events[opened].keys)
            return begin[opened], begin[place], span, opened, place, owner
        if "duration_s" in event.keys and self._lasts(place, event):
            return begin[place], self.finish[place], name, place, place, owner_of(name, event.keys)
        return None

    def _lasts(self, place: int, event: Event) -> bool:
        """Whether an event of its own took time; its end is noted."""
        if event.id[-5:] == ".open" and event.id[:-5] + ".close" in self.positions:
            return False  # it is one end of something
        duration = nanoseconds(event.keys["duration_s"])
        if duration is None:
            self.flags.add("skewed")
            return False
        if self.finish is self.begin:
            self.finish = self.begin.copy()
        self.finish[place] += duration
        self.lasting.add(place)
        return True

    def _root(self) -> Interval | None:
        """The activation that only the stop closes."""
        if self.stop is None:
            return None
        name = self.events[self.stop].keys.get("activation")
        if not isinstance(name, str) or name + ".close" in self.positions:
            return None
        opened = self.positions.get(name + ".open")
        if opened is None:
            return None
        return self.begin[opened], self.finish[self.stop], name, opened, self.stop, None

    def _follow_edges(self) -> tuple[Sequence[Sequence[int]], Sequence[int]]:
        """Causes of each event, and an order in which causes come first."""
        positions = self.positions
        count = len(self.events)
        are_lists = count < _MANY
        causes: list[Any] = [[] for _ in self.events] if are_lists else [()] * count
        forward = True
        for edge in self.edges:
            if edge.type == "temporal":
                continue
            try:
                source, target = positions[edge.src], positions[edge.dst]
            except KeyError:
                continue
            if are_lists:
                causes[target].append(source)
            else:
                _add_tightly(causes, target, source)
            if source >= target:
                forward = False
        return causes, self._order(causes, forward=forward)

    def _order(self, causes: Sequence[Sequence[int]], *, forward: bool) -> Sequence[int]:
        """Positions, causes first; most traces stand so already, which `forward` says."""
        begin = self.begin
        if not forward or begin != self.ordered:
            for place, sources in enumerate(causes):
                if any(begin[place] < begin[source] for source in sources):
                    self.flags.add("skewed")
        order = range(len(begin)) if forward else _causes_first(causes)
        if len(order) < len(begin):
            self.flags.add("cyclic")
        return order

    def _nest(
        self,
        intervals: Sequence[Interval],
        parts: Mapping[str | None, list[Interval]],
        causes: Sequence[Sequence[int]],
        order: Sequence[int],
    ) -> Mapping[str, str]:
        """Tool call or lasting event inside which an interval went on, by name, if there is one."""
        events, lasting = self.events, self.lasting
        # An activation is no holder: an interval names its activation itself.
        holding = [
            one for one in intervals if events[one[3]].type == "tool_call" or one[3] in lasting
        ]
        shared = {one[5] for one in holding if len(parts[one[5]]) > 1}
        if not any(overlap(parts[owner]) for owner in shared):
            return {}  # in most runs no tool calls anything
        holders = {one[3]: one for one in holding}
        if not have_effects(holders, causes):
            return {}  # they went on beside each other
        around = Nesting(events, self.begin, causes, intervals, holders).follow(order)
        return {
            one[2]: outer[2]
            for one in intervals
            if one[3] != self.stop and (outer := around[one[3]]) is not None
        }

    def _divide(
        self, intervals: Sequence[Interval], parts: Mapping[str | None, list[Interval]]
    ) -> tuple[list[int], int]:
        """Own work by the event that completes it, and how much went on at once."""
        events = self.events
        own_work = [0] * len(events)
        starts: list[int] = []
        ends: list[int] = []
        for low, high, name, opened, closed, _ in intervals:
            if high < low:
                self.flags.add("skewed")
            elif events[opened].type == _WAITING:
                continue
            elif name in parts:
                own_work[closed] += fill_gaps(low, high, parts[name], starts, ends)
            elif low < high:
                own_work[closed] += high - low
                starts.append(low)
                ends.append(high)
        return own_work, at_once(starts, ends)


def _by_owner(intervals: Sequence[Interval]) -> dict[str | None, list[Interval]]:
    """Intervals by the name of what is around them."""
    parts: dict[str | None, list[Interval]] = {}
    for interval in intervals:
        owner = interval[5]
        if owner in parts:
            parts[owner].append(interval)
        else:
            parts[owner] = [interval]
    return parts


def longest_chains(graph: Graph) -> list[int]:
    """When each event could be over at the earliest, in nanoseconds: ft of the sheet.

    Counted from where the run began. Own work stands at the close of its interval,
    although some of it was done before what the interval waited for. Where that came
    from outside the interval, the chain would be longer than the time that has gone by;
    it is cut to that.
    """
    own_work, finish, causes, first = graph.own_work, graph.finish, graph.causes, graph.first
    chains = [first] * len(own_work)
    for place in graph.order:
        over = first
        for cause in causes[place]:
            if chains[cause] > over:  # noqa: PLR1730 - `max` costs more than all the rest
                over = chains[cause]
        over += own_work[place]
        if over > finish[place]:  # noqa: PLR1730 - as above
            over = finish[place]
        chains[place] = over
    return chains


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
        if not event.is_stop:
            continue
        if place == len(events) - 1:
            return place
        if last is None or (event.t, event.id) > (events[last].t, events[last].id):
            last = place
    return last


def is_delegation(event: Event) -> bool:
    """Whether a decision gives work to an agent that lives, in our words or in the sheet's."""
    return event.keys.get("verb") == "delegate" or event.keys.get("decision") == "delegate"


def owner_of(name: str, keys: Mapping[str, Any]) -> str | None:
    """The activation around an interval: its `parent` for activations, else the one it names."""
    owner = keys.get("activation")
    if owner == name:
        owner = keys.get("parent")
    return owner if isinstance(owner, str) else None


def fill_gaps(low: int, high: int, parts: list[Part], starts: list[int], ends: list[int]) -> int:
    """How much `parts` leave of the time from `low` to `high`; its pieces are added to the lists.

    A part begins with its start and its end; parts may overlap, and are sorted in place.

    Example:
        >>> parts = [(2, 4, "a", 1, 2, "r"), (3, 5, "b", 3, 4, "r"), (9, 12, "c", 5, 6, "r")]
        >>> starts, ends = [], []
        >>> fill_gaps(0, 10, parts, starts, ends), starts, ends
        (6, [0, 5], [2, 9])
    """
    parts.sort()
    free = 0
    for part in parts:
        start, end = part[0], part[1]
        if start > low:
            if start >= high:
                break
            free += start - low
            starts.append(low)
            ends.append(start)
        if end > low:  # noqa: PLR1730 - `max` costs more than all the rest
            low = end
    if low < high:
        free += high - low
        starts.append(low)
        ends.append(high)
    return free


def at_once(starts: list[int], ends: list[int]) -> int:
    """The greatest number of pieces at one time; one that ends makes room for one that starts.

    Example:
        >>> at_once([0, 1, 2], [2, 3, 4])
        2
    """
    starts.sort()
    ends.sort()
    rooms = freed = 0
    for start in starts:
        if start < ends[freed]:
            rooms += 1
        else:
            freed += 1
    return rooms


def _add_tightly(causes: list[Any], target: int, source: int) -> None:
    """Add a cause to a tuple, or to the list that becomes of it beyond `_FEW`."""
    if len(causes[target]) == _FEW:
        causes[target] = [*causes[target], source]
    else:
        causes[target] += (source,)


def _causes_first(causes: Sequence[Sequence[int]]) -> list[int]:
    """Positions so that causes stand before effects; those on and before a cycle are left out.

    Example:
        >>> _causes_first([[1, 2], [2], []])
        [2, 1, 0]
    """
    waiting = [0] * len(causes)
    for sources in causes:
        for source in sources:
            waiting[source] += 1
    order = [place for place, count in enumerate(waiting) if not count]
    for place in order:  # grows while it is read
        for source in causes[place]:
            waiting[source] -= 1
            if not waiting[source]:
                order.append(source)
    order.reverse()
    return order
