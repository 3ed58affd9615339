"""The measures of a run while it is open, event by event, and the very same once it stopped.

The offline twin, `graph.read_graph`, looks at each interval as a whole. This one goes
through time: it knows who is at work now, and lets the clock run from one event to the
next. In both everything is counted in integers, so that they agree to the bit.

Events wait in a heap by time until a number is asked for. Where they come in the order of
time, which is how they happen, each is looked at once: O(in-degree + log n). Where one is
earlier than the clock, though after its causes, the clock starts again, once for all of
them, when a number is asked for next. What cannot be told while a run is open (a cycle, an
effect before its cause, two events of one id, an interval that never closed) makes the end
of the run ask the offline twin instead, O(V + E) once: `is_exact` says which it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.graph import Graph, nanoseconds, owner_of
from orchtrace_otel.rewards.measures import MEASURES, Run, measure, measure_facts
from orchtrace_otel.rewards.tokens import count_tokens, is_protocol

if TYPE_CHECKING:
    from orchtrace_otel.rewards.nesting import Interval

_END, _EVENT = 0, 1
"""What waits for its time; ends of lasting events come first."""

_WAITING: Final = "human_intervention"


@dataclass(slots=True, eq=False)
class _Interval:
    """Something that takes time and is not over yet, or just ended.

    Attributes:
        name: Id of its span, or of its event.
        owner: Name of the activation around it.
        holder: The tool call or lasting event inside which it began, if it did.
        around: The interval whose work rests while this one goes on: its holder, or its owner.
        opened: Number of the event that began it.
        begin: When, in nanoseconds.
        is_tool: Whether it may hold what follows from its opening: a tool call or a lasting event.
        is_waiting: Whether it is a person's time, and nobody's work.
        is_open: Whether it goes on.
        inside: How many intervals go on inside it.
        since: When its own work last began.
        worked: Own work before that, in nanoseconds.
    """

    name: str
    owner: str | None
    holder: _Interval | None
    around: _Interval | None
    opened: int
    begin: int
    is_tool: bool
    is_waiting: bool
    is_open: bool = True
    inside: int = 0
    since: int = 0
    worked: int = 0


class _Clock:
    """Who is at work, from the first event to now; it only goes forward."""

    def __init__(self) -> None:
        self.now = 0
        self.busy = 0
        self.peak = 0
        self.work = 0
        self.finished = 0
        self.is_sound = True
        self.open: dict[str, _Interval] = {}
        self.by_opening: dict[int, _Interval] = {}

    def advance(self, now: int) -> None:
        """Let time pass."""
        if now > self.now:
            self.work += self.busy * (now - self.now)
            self.peak = max(self.peak, self.busy)
            self.now = now

    def begin(self, started: _Interval) -> None:
        """An interval begins now; what it goes on inside of rests."""
        self.open[started.name] = started
        self.by_opening[started.opened] = started
        around = started.around
        if around is not None:
            if not around.inside:
                self._rest(around)
            around.inside += 1
        self._work(started)

    def end(self, ended: _Interval) -> int:
        """An interval ends now; return its own work."""
        if not ended.inside:
            self._rest(ended)
        ended.is_open = False
        del self.open[ended.name]
        del self.by_opening[ended.opened]
        if ended.is_tool and ended.inside:
            self.is_sound = False  # what it caused outlives it, and was not inside it after all
        around = ended.around
        if around is not None and around.is_open:
            around.inside -= 1
            if not around.inside:
                self._work(around)
        self.finished += 1
        return ended.worked

    def _work(self, one: _Interval) -> None:
        if not one.is_waiting:
            one.since = self.now
            self.busy += 1

    def _rest(self, one: _Interval) -> None:
        if not one.is_waiting:
            one.worked += self.now - one.since
            self.busy -= 1


class Online:
    """Follows one run; `values` at any time, `finish` once it stopped.

    Example:
        >>> from orchtrace_otel.model import Event
        >>> run = Online()
        >>> run.add(Event("a.open", 0, "spawn", "lead", {"verb": "spawn", "activation": "a"}))
        >>> run.add(Event("m", 2, "message", "lead", {"activation": "a"}), ("a.open",))
        >>> run.values()["work"]
        2.0
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._numbers: dict[str, int] = {}
        self._begin: list[int] = []
        self._finish: list[int] = []
        self._causes: list[list[int]] = []
        self._said: list[tuple[str, ...]] = []
        self._awaited: set[str] = set()
        self._is_causal = True
        self._stop: int | None = None
        self._tokens = self._protocol = 0
        self._tokens_known = True
        self._waiting: list[tuple[int, int, int]] = []
        self._restart()

    def _restart(self) -> None:
        self._clock = _Clock()
        self._first: int | None = None
        self._holders: dict[int, _Interval] = {}
        self._inside: dict[str, str] = {}
        self._intervals: list[Interval] = []
        self._ahead: set[str] = set()
        self._chains = [0] * len(self._events)
        self._own_work = [0] * len(self._events)
        self._longest = 0

    @property
    def is_exact(self) -> bool:
        """Whether all that came so far can be told while the run is open."""
        return self._is_causal and self._clock.is_sound

    def add(self, event: Event, causes: Iterable[str] = ()) -> None:
        """Take an event, and the ids of what led to it; mere order in time is no cause.

        It may come at any time after its causes. Costs O(causes + log n).
        """
        number = len(self._events)
        begin = nanoseconds(event.t)
        end = self._end_of(event, begin)
        said = tuple(causes)
        self._said.append(said)
        sources = self._known(said)
        if begin is None or end is None or not self._is_in_order(event, begin, sources):
            self._is_causal = False
            begin = end = begin or 0
        self._numbers[event.id] = number
        self._events.append(event)
        self._begin.append(begin)
        self._finish.append(end)
        self._causes.append(sources)
        self._chains.append(0)
        self._own_work.append(0)
        self._count_tokens(event)
        if event.is_stop:
            self._is_causal = self._is_causal and self._stop is None and end == begin
            self._stop = number
        heapq.heappush(self._waiting, (begin, _EVENT, number))

    def values(self) -> dict[str, float]:
        """The measures so far; what goes on counts until the latest event.

        Without `waste`, which only the answer tells. Until the run stopped the span is
        what the longest chain is at least. Where `is_exact` is false the offline twin is
        asked, O(V + E), and what goes on does not count.
        """
        if not self._events:
            return {}
        if not self._is_told():
            return _without_waste(measure(self._so_far())[0])
        clock = self._clock
        first, last = self._first or 0, clock.now
        going = (self._reached(one) for one in clock.open.values())
        longest = max(self._longest, *going) if clock.open else self._longest
        is_timed = clock.finished > 0 or bool(clock.open)
        run = Run(
            work_ns=clock.work if is_timed else None,
            span_ns=longest - first if is_timed else None,
            makespan_ns=last - first,
            peak=max(clock.peak, clock.busy) if is_timed else None,
            tokens=self._tokens if self._tokens_known else None,
            protocol_tokens=self._protocol if self._tokens_known else None,
        )
        found = {name: function(run) for name, function in MEASURES.items()}
        return {name: value for name, value in found.items() if value is not None}

    def finish(self, trace: Trace) -> tuple[dict[str, float], frozenset[str]]:
        """The measures of the finished run, and flags for those that are absent.

        Exactly what `measure(trace)` gives.

        Args:
            trace: The finished trace, for its costs and metrics; where `is_exact` is
                false its events and edges are read too.
        """
        if not self._is_told() or self._clock.open or len(self._events) != len(trace.events):
            return measure(trace)
        known = replace(trace, events=tuple(self._events))
        return measure_facts(Facts(known, graph=self._graph()))

    def _is_told(self) -> bool:
        """Let the clock catch up; say whether what it shows can be relied on."""
        if self._is_causal:
            self._catch_up()
        return self.is_exact

    def _so_far(self) -> Trace:
        edges = [
            Edge(cause, event.id, "causal")
            for event, causes in zip(self._events, self._said, strict=True)
            for cause in causes
        ]
        return Trace("", "", tuple(self._events), tuple(edges))

    def _graph(self) -> Graph:
        order = range(len(self._events))
        return Graph(
            begin=self._begin,
            finish=self._finish,
            first=min(self._begin, default=0),
            last=max(self._finish, default=0),
            own_work=self._own_work,
            causes=self._causes,
            order=order,
            stop=self._stop,
            timed=self._clock.finished > 0,
            peak=self._clock.peak,
            flags=frozenset(),
            positions=self._numbers,
            inside=self._inside,
            intervals=self._intervals,
        )

    def _end_of(self, event: Event, begin: int | None) -> int | None:
        """When an event is over; None where its times are none, or cannot be told yet."""
        if begin is None or "duration_s" not in event.keys:
            return begin
        duration = nanoseconds(event.keys["duration_s"])
        if duration is None or duration < 0 or event.id.endswith((".open", ".close")):
            return None
        return begin + duration

    def _known(self, causes: Iterable[str]) -> list[int]:
        """Numbers of the causes that are there; the others are remembered."""
        found: list[int] = []
        for cause in causes:
            number = self._numbers.get(cause)
            if number is None:
                self._awaited.add(cause)
            else:
                found.append(number)
        return found

    def _is_in_order(self, event: Event, begin: int, sources: Iterable[int]) -> bool:
        """Whether an event came after its causes, and before its effects and its close."""
        name = event.id
        return (
            name not in self._numbers
            and name not in self._awaited
            and all(self._begin[source] <= begin for source in sources)
            and not (name.endswith(".open") and name[:-5] + ".close" in self._numbers)
        )

    def _count_tokens(self, event: Event) -> None:
        if "tokens" in event.keys:
            count = count_tokens(event.keys["tokens"])
            if count is None:
                self._tokens_known = False
                return
            self._tokens += count
            if not event.is_stop and is_protocol(event):
                self._protocol += count

    def _catch_up(self) -> None:
        """Let the clock run over all that came."""
        if self._waiting and self._first is not None and self._waiting[0][0] < self._clock.now:
            self._restart()
            self._waiting = [(begin, _EVENT, number) for number, begin in enumerate(self._begin)]
            heapq.heapify(self._waiting)
        while self._waiting:
            now, kind, number = heapq.heappop(self._waiting)
            if self._first is None:
                self._first = self._clock.now = now
            self._clock.advance(now)
            if kind == _EVENT:
                self._happen(number)
            else:
                self._complete(number, self._end(number, self._clock.by_opening[number]))

    def _happen(self, number: int) -> None:
        event = self._events[number]
        own_work = 0
        if "duration_s" in event.keys:
            self._open(number, event.id, is_tool=True)
            heapq.heappush(self._waiting, (self._finish[number], _END, number))
            return
        if event.id.endswith(".open"):
            self._open(number, event.id[:-5], is_tool=event.type == "tool_call")
        else:
            ended = self._ended_by(event)
            if ended is not None:
                own_work = self._end(number, ended)
                holder = ended.holder
            else:
                if event.id[-6:] == ".close" and event.id[:-6] + ".open" in self._numbers:
                    self._clock.is_sound = False  # the stop ended it, and was not its end after all
                holder = self._holder(number, event.keys.get("activation"))
            self._leave(number, holder)
        self._complete(number, own_work)

    def _ended_by(self, event: Event) -> _Interval | None:
        if event.id.endswith(".close"):
            return self._clock.open.get(event.id[:-6])
        name = event.keys.get("activation") if event.is_stop else None
        return self._clock.open.get(name) if isinstance(name, str) else None

    def _open(self, number: int, name: str, *, is_tool: bool) -> None:
        event = self._events[number]
        owner = owner_of(name, event.keys)
        holder = self._holder(number, owner)
        around = holder
        if holder is None and owner is not None:
            around = self._clock.open.get(owner)
            if around is None:
                self._ahead.add(owner)
        if name in self._ahead:
            self._clock.is_sound = False  # what it holds began before it, or at once and was first
        opened = _Interval(
            name=name,
            owner=owner,
            holder=holder,
            around=around,
            opened=number,
            begin=self._begin[number],
            is_tool=is_tool,
            is_waiting=event.type == _WAITING,
        )
        self._clock.begin(opened)
        if holder is not None:
            self._inside[name] = holder.name
        self._leave(number, opened if is_tool else holder)

    def _end(self, number: int, ended: _Interval) -> int:
        """An event ends an interval; return its own work."""
        owner = ended.owner if ended.holder is None else ended.holder.name
        self._intervals.append(
            (ended.begin, self._finish[number], ended.name, ended.opened, number, owner)
        )
        return self._clock.end(ended)

    def _holder(self, number: int, owner: str | None) -> _Interval | None:
        """The tool call or lasting event of an activation that an event goes on inside of."""
        if not self._holders:
            return None
        found: set[_Interval] = set()
        for cause in self._causes[number]:
            holder = self._holders.get(cause)
            while holder is not None and not holder.is_open:
                holder = holder.holder
            if holder is not None and holder.owner == owner:
                found.add(holder)
        if len(found) > 1:
            self._clock.is_sound = False  # which one it is comes out when they are over
        return found.pop() if found else None

    def _leave(self, number: int, holder: _Interval | None) -> None:
        """Note inside of what the effects of an event begin."""
        if holder is not None:
            self._holders[number] = holder

    def _complete(self, number: int, own_work: int) -> None:
        """An event is over, with own work that it completes: see how long its chain is."""
        over = self._first or 0
        for cause in self._causes[number]:
            over = max(over, self._chains[cause])
            if self._finish[cause] > self._finish[number]:
                self._clock.is_sound = False  # how long the cause's chain is comes out later
        self._own_work[number] = own_work
        self._chains[number] = min(over + own_work, self._finish[number])
        self._longest = max(self._longest, self._chains[number])

    def _reached(self, one: _Interval) -> int:
        """How long the chain to an interval that goes on is by now."""
        worked = one.worked
        if not one.inside and not one.is_waiting:
            worked += self._clock.now - one.since
        return min(self._chains[one.opened] + worked, self._clock.now)


def _without_waste(measures: dict[str, float]) -> dict[str, float]:
    measures.pop("waste", None)
    return measures
