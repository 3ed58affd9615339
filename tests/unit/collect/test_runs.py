"""When OTel traces close: by their roots, by silence, by bounds, and by nothing senders say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orchtrace_otel import attributes as a
from orchtrace_otel.collect.parts import Part, parts_of
from orchtrace_otel.collect.runs import Closing, OpenRuns

CLOSING = Closing(grace_s=10, idle_s=600)
TRACE = b"t" * 16


def part(*spans: tuple[int, int | None, int | None], trace_id: bytes = TRACE) -> Part:
    """Return a part of spans, each with its id, its parent's, and its run's root."""
    request = ExportTraceServiceRequest()
    into = request.resource_spans.add().scope_spans.add().spans
    for span_id, parent, root in spans:
        added = into.add(trace_id=trace_id, span_id=span_id.to_bytes(8, "big"))
        if parent is not None:
            added.parent_span_id = parent.to_bytes(8, "big")
        if root is not None:
            added.trace_state = f"{a.TRACESTATE_KEY}={root:016x}"
    (found,) = parts_of(request.SerializeToString())
    return found


class Clock:
    """Open runs whose time a test sets."""

    def __init__(self, most: int = 100, most_bytes: int = 10**9) -> None:
        self.runs = OpenRuns(CLOSING, most, most_bytes)

    def take(self, of: Part, now: float) -> int:
        trace_id = of.trace_id.hex()
        opened = self.runs.get(trace_id) or self.runs.open(trace_id, now)
        return self.runs.take(opened, of, now)

    def due(self, now: float) -> list[tuple[str, str]]:
        return [(opened.trace_id, reason) for opened, reason in self.runs.due(now)]


HEX = TRACE.hex()


def test_a_run_closes_a_grace_after_its_root() -> None:
    """Its root is the span that its id names; what comes within the grace is in it."""
    clock = Clock()
    clock.take(part((2, 1, 1)), 0)
    clock.take(part((1, None, 1)), 5)
    clock.take(part((3, 1, 1)), 14)
    assert clock.due(14.9) == []
    assert clock.due(15) == [(HEX, "root")]
    assert (len(clock.runs), clock.runs.size) == (0, 0)


def test_a_run_without_its_root_closes_after_silence() -> None:
    """Counted from the last span that was news: resends keep nothing open."""
    clock = Clock()
    clock.take(part((2, 1, 1)), 0)
    assert clock.take(part((3, 1, 1)), 100) == 1
    assert clock.take(part((3, 1, 1)), 500) == 0
    assert clock.due(699) == []
    assert clock.due(700) == [(HEX, "idle")]


def test_a_trace_of_several_runs_waits_for_all_of_their_roots() -> None:
    """A host's span around them is a root of none."""
    clock = Clock()
    clock.take(part((1, 9, 1), (2, 9, 2)), 0)
    clock.take(part((3, 2, 2)), 1)
    clock.take(part((9, None, None)), 2)
    assert clock.due(11) == []
    assert clock.due(12) == [(HEX, "root")]
    clock.take(part((4, 9, 4), (5, 6, 6)), 100)
    assert clock.due(699) == []
    assert clock.due(700) == [(HEX, "idle")]


def test_a_run_waits_for_the_others_of_its_trace_no_longer_than_the_idle_time() -> None:
    """A host whose one span is around run after run gets the first ones meanwhile."""
    for ahead, every, reason in ((1, 30, "idle"), (0, 5, "root")):
        clock = Clock()
        now = 0
        while not (closed := clock.due(now)):
            number = now // every + 1
            clock.take(part((number, 9_999, number), (5_000 + number, number, number + ahead)), now)
            now += every
        assert (closed, now) == ([(HEX, reason)], 600)


def test_spans_of_others_close_a_grace_after_one_without_a_parent() -> None:
    """That is all that such a trace says of its end."""
    clock = Clock()
    clock.take(part((2, 1, None)), 0)
    clock.take(part((1, None, None)), 3)
    assert clock.due(12.9) == []
    assert clock.due(13) == [(HEX, "root")]


def test_a_callee_in_another_process_does_not_end_the_run() -> None:
    """Its spans name a root that is not here, and have parents all of them."""
    clock = Clock()
    clock.take(part((5, 4, 1), (6, 5, 1)), 0)
    assert clock.due(599) == []


def test_bounds_close_who_was_silent_for_longest() -> None:
    """By number, and by bytes; what closed so goes on when more of it comes."""
    clock = Clock(most=2)
    ids = [bytes([number]) * 16 for number in (1, 2, 3)]
    for now, trace_id in enumerate(ids):
        clock.take(part((1, 7, 7), trace_id=trace_id), now)
    clock.take(part((2, 7, 7), trace_id=ids[0]), 5)
    assert clock.due(5) == [(ids[1].hex(), "bounds")]
    small = Clock(most_bytes=1)
    small.take(part((1, 7, 7)), 0)
    assert small.due(0) == [(HEX, "bounds")]
    assert small.runs.size == 0


def test_what_could_not_be_stored_is_tried_again() -> None:
    """It is held all the while, so that late spans still find it."""
    clock = Clock()
    clock.take(part((1, None, 1)), 0)
    ((opened, _),) = list(clock.runs.due(10))
    assert (clock.runs.get(HEX), clock.runs.held(HEX)) == (None, opened)
    clock.runs.put_back(opened, 11)
    assert clock.runs.held(HEX) is opened
    assert clock.due(10.9) == []
    assert clock.due(11) == [(HEX, "root")]
    clock.runs.committed()
    assert clock.runs.held(HEX) is None


def test_the_end_takes_out_what_has_its_roots_only() -> None:
    """What is open stays for the next process."""
    clock = Clock()
    clock.take(part((1, None, 1)), 0)
    clock.take(part((2, 1, 1), trace_id=b"u" * 16), 0)
    assert [opened.trace_id for opened in clock.runs.rest()] == [HEX]
    assert [opened.trace_id for opened in clock.runs] == [(b"u" * 16).hex()]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 400)), max_size=30))
def test_nothing_is_forgotten_and_sizes_add_up(arrivals: list[tuple[int, int, int]]) -> None:
    """Whatever comes when: each trace closes at last, with each of its spans once."""
    clock = Clock(most=3)
    now = 0
    sent: set[tuple[bytes, int]] = set()
    closed: list[tuple[str, int]] = []

    def look(at: float) -> None:
        for opened, _ in clock.runs.due(at):
            parts = [one for data in opened.parts for one in parts_of(data)]
            spans = [mark for one in parts for mark in one.marks]
            assert len(set(spans)) == len(opened.marks)
            closed.append((opened.trace_id, len(opened.marks)))

    for which, span, later in arrivals:
        now += later
        look(now)
        trace_id = bytes([which + 1]) * 16
        clock.take(part((span, None if span == 1 else 1, 1), trace_id=trace_id), now)
        sent.add((trace_id, span))
        assert clock.runs.size == sum(opened.size for opened in clock.runs)
    look(now + 601)
    assert (len(clock.runs), clock.runs.size) == (0, 0)
    assert {trace_id for trace_id, _ in closed} == {trace_id.hex() for trace_id, _ in sent}
