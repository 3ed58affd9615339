"""Tools in replays: played back, called where they are safe, or the replay is blocked."""

import asyncio
import inspect

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.replay import Part, is_replaying, record

PLAYER = [Part("agent", "a")]


def replayed(trace, function, recording=None):
    """What came of four replays of `function`."""
    seen = []

    def again(change, seed):
        seen.append(function())
        return 1.0

    found = orchtrace.counterfactual(
        trace, again, PLAYER, replays=4, recording=recording, workers=1
    )
    return seen, found.lost


def test_a_recorded_result_stands_for_the_call(trace) -> None:
    """The tool is not called again, and gives what it gave for these arguments."""
    calls = []

    @orchtrace.tool
    def pay(amount: int) -> list[int]:
        calls.append(amount)
        return [amount, len(calls)]

    with record() as recording:
        pay(5)
        pay(7)
        pay(5)
    assert len(recording) == 3
    seen, lost = replayed(trace, lambda: (pay(5), pay(5), pay(7), pay(5)), recording)
    assert lost == {}
    assert seen == [([5, 1], [5, 3], [7, 2], [5, 3])] * 4
    assert calls == [5, 7, 5]


def test_other_arguments_block_the_replay(trace) -> None:
    """What was never asked has no recorded answer; nothing is called."""
    calls = []

    @orchtrace.tool
    def pay(amount: int) -> None:
        calls.append(amount)

    with record() as recording:
        pay(5)
    seen, lost = replayed(trace, lambda: pay(6), recording)
    assert (seen, lost, calls) == ([], {"blocked": 4}, [5])


def test_without_a_recording_every_unsafe_tool_blocks(trace) -> None:
    """Safe until told otherwise."""

    @orchtrace.tool
    def pay() -> None:
        pytest.fail("it was called")

    assert replayed(trace, pay)[1] == {"blocked": 4}


def test_a_safe_tool_is_called_again(trace) -> None:
    """The mark is the author's word that it changes nothing."""

    @orchtrace.tool(replay_safe=True)
    def add(a: int, b: int) -> int:
        return a + b

    assert replayed(trace, lambda: add(1, b=2)) == ([3] * 4, {})


def test_errors_are_played_back_too(trace) -> None:
    """A tool that raised raises the same again, as a copy."""

    @orchtrace.tool
    def fail() -> None:
        msg = "down"
        raise LookupError(msg)

    with record() as recording, pytest.raises(LookupError):
        fail()

    def ask() -> str:
        with pytest.raises(LookupError, match="down"):
            fail()
        return "told"

    assert replayed(trace, ask, recording) == (["told"] * 4, {})


def test_coroutines_and_methods_are_recorded(trace) -> None:
    """The object that a method belongs to is no argument of the tool."""

    class Shop:
        def __init__(self) -> None:
            self.sold = 0

        @orchtrace.tool
        async def sell(self, what: str) -> str:
            self.sold += 1
            return what * self.sold

    shop = Shop()
    with record() as recording:
        assert asyncio.run(shop.sell("x")) == "x"
    assert inspect.iscoroutinefunction(Shop.sell)
    seen, lost = replayed(trace, lambda: asyncio.run(Shop().sell("x")), recording)
    assert (seen, lost, shop.sold) == (["x"] * 4, {}, 1)


def test_streams_are_not_recorded_and_block(trace) -> None:
    """A generator has no result to play back; a safe one is called."""

    @orchtrace.tool
    def stream() -> object:
        yield 1

    @orchtrace.tool(replay_safe=True)
    def safe_stream() -> object:
        yield 2

    with record() as recording:
        assert list(stream()) == [1]
    assert len(recording) == 0
    assert replayed(trace, lambda: list(stream()), recording)[1] == {"blocked": 4}
    assert replayed(trace, lambda: list(safe_stream()), recording) == ([[2]] * 4, {})


def test_results_are_kept_as_they_were(trace) -> None:
    """The host may change what it got; replays get what the tool gave."""

    @orchtrace.tool
    def get() -> dict[str, int]:
        return {"n": 1}

    with record() as recording:
        get()["n"] = 9

    def change_it() -> int:
        got = get()
        got["n"] += 1
        return got["n"]

    assert replayed(trace, change_it, recording)[0] == [2] * 4


def test_what_cannot_be_copied_is_skipped_and_said(trace) -> None:
    """A lock, a coroutine, an open file: the replay that needs it is blocked."""
    import threading

    @orchtrace.tool
    def get() -> object:
        return threading.Lock()

    with record() as recording:
        get()
    assert (len(recording), recording.skipped) == (0, 1)
    assert replayed(trace, get, recording)[1] == {"blocked": 4}


def test_outside_of_replays_tools_do_what_they_did() -> None:
    """Same object, same exception, nothing kept."""
    marker = object()

    @orchtrace.tool
    def get() -> object:
        return marker

    assert get() is marker
    assert not is_replaying()
    with record():
        assert get() is marker


def test_the_error_says_what_to_do() -> None:
    """Both ways out are named."""
    from orchtrace_otel.playback import Playback

    with pytest.raises(ReplayBlockedError, match="replay_safe=True or have a recorded result"):
        Playback(None).result("pay", (1,), {})


def test_a_blocked_tool_blocks_though_the_host_catches_or_renames_what_it_raises(trace) -> None:
    """Both an answer made of the error and another error are a blocked replay."""

    @orchtrace.tool
    def pay():
        return "paid"

    def catches():
        try:
            pay()
        except Exception:  # noqa: BLE001 - that is what is tested
            return "not paid"

    def renames():
        try:
            pay()
        except Exception as error:
            raise KeyError from error

    for function in (catches, renames):
        assert replayed(trace, function)[1] == {"blocked": 4}


def test_no_span_of_anybody_comes_of_a_replay(trace) -> None:
    """Of none who honours suppression, and of none whose sampler follows the parent."""
    taken = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(taken))
    tracer = provider.get_tracer("of a host that knows nothing of suppression")

    def works():
        with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
            pass

    with tracer.start_as_current_span("of the caller"):
        replayed(trace, works)
    assert [span.name for span in taken.get_finished_spans()] == ["of the caller"]
