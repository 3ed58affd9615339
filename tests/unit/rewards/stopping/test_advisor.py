"""Advice inline: written on events, the same from OTLP, told to the host, and never in its way."""

from __future__ import annotations

import asyncio
import functools
import gc
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common import trace_encoder

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard, content, otlp, spans
from orchtrace_otel.content import Capture
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.errors import ConfigError, StoppingError
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.stopping import advisor as advisor_module
from orchtrace_otel.rewards.stopping.advisor import Advisor, DecisionPoint
from orchtrace_otel.rewards.stopping.features import FEATURES
from orchtrace_otel.rewards.stopping.heads import Curve, Linear
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.points import feature_names, read_course
from orchtrace_otel.rewards.stopping.watch import features_of
from tests.trees import recording, tree


@pytest.fixture(autouse=True)
def warnings_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see the warnings that a process gives once."""
    monkeypatch.setattr(_guard, "_told", set())


@orchtrace.agent
def writer(text: str = "") -> str:
    return text + "!"


@orchtrace.agent(role="critic")
def critic(text: str = "") -> str:
    return text + "?"


@orchtrace.agent
def broken() -> None:
    raise LookupError


@orchtrace.tool
def poll() -> None: ...


def model(*features: str) -> StopValue:
    """Going on gains 0.25 less a tenth a step."""
    names = features or ("step", "last_ok")
    width = len(names)
    flat = Linear(0.5, (0.0,) * width, (0.0,) * width, (9.0,) * width)
    gain = Linear(0.25, (-0.1, *[0.0] * width), (0.0,) * (width + 1), (9.0,) * (width + 1))
    spread = Linear(0.1, (0.0,) * (width + 1), (0.0,) * (width + 1), (9.0,) * (width + 1))
    return StopValue(names, 0.05, flat, Curve((0.5,), (0.5,)), gain, spread)


def points(trace: Trace) -> list[Event]:
    return [event for event in trace.events if "decision_point" in event.keys]


@orchtrace.team
def team() -> None:
    orchtrace.delegate("writer")
    writer("a")
    critic("b")
    with orchtrace.aggregate():
        pass
    orchtrace.decide("route", chosen="stop")


def run(team: Callable[[], object]) -> Trace:
    with recording() as captured:
        team()
    return captured.trace


def test_each_decision_return_and_aggregate_is_a_point_and_so_is_the_stop() -> None:
    """Named, with every feature there is, in steps from 1 on; no other event has any."""
    with orchtrace.advise():
        trace = run(team)
    found = points(trace)
    assert [(event.verb, event["decision_point"]) for event in found] == [
        ("delegate", "delegate"),
        ("return", "return"),
        ("return", "return"),
        ("aggregate", "aggregate"),
        ("decide", "route"),
        ("stop", "stop"),
    ]
    assert [event["features"]["step"] for event in found] == [1, 2, 3, 4, 5, 6]
    assert all(tuple(event["features"]) == tuple(FEATURES) for event in found)
    assert not any("advice" in event.keys for event in trace.events)
    assert sum("features" in event.keys for event in trace.events) == len(found)


def test_advice_stands_on_the_event_and_is_provisional_until_the_stop() -> None:
    """Numbers as numbers, the words and the version as texts."""
    with orchtrace.advise(model()):
        found = points(run(team))
    first = found[0]["advice"]
    assert first == {
        "q": 0.5,
        "g": pytest.approx(0.65),
        "v_stop": pytest.approx(0.15),
        "sd": pytest.approx(0.1),
        "reason": "going on is worth more",
        "model": model().version,
        "provisional": True,
    }
    assert [event["advice"]["provisional"] for event in found] == [True] * 5 + [False]
    assert [event["advice"]["v_stop"] > 0 for event in found] == [True] * 2 + [False] * 4


def test_the_trace_is_the_same_inline_and_from_otlp() -> None:
    """Points, features, advice and chances, bit for bit; and a course reads them."""
    with orchtrace.advise(model(), lambda point: 0.125), recording() as captured:
        team()
    data = trace_encoder.encode_spans(captured.spans).SerializeToString()
    (rebuilt,) = otlp.traces(otlp.read_protobuf(data))
    assert score(rebuilt).to_dict() == captured.trace.to_dict()
    course = read_course(captured.trace)
    assert [point.stop_probability for point in course.points] == [0.125] * 6
    assert feature_names([course]) == tuple(FEATURES)


def test_without_an_advisor_nothing_is_written_or_watched() -> None:
    """It is off unless it is asked for, and off again once it is closed."""
    with orchtrace.advise():
        pass
    assert spans.watchers == []
    assert points(run(team)) == []


def test_advice_changes_nothing_else_of_a_trace() -> None:
    """The same tree of events and causes, but for the attributes."""
    bare = run(team)
    with orchtrace.advise(model()):
        advised = run(team)
    assert tree(advised) == tree(bare)
    assert list(advised.edges) == list(bare.edges)


def test_a_callback_is_told_of_each_point_before_the_event_is_over() -> None:
    """With ids that a grade can be given to, which the trace then reads as `answer_now`."""
    told: list[DecisionPoint] = []

    def grade(point: DecisionPoint) -> None:
        told.append(point)
        grade = point.features["step"] / 8
        orchtrace.record_reward("answer_now", grade, event_id=point.event_id)

    with orchtrace.advise(model(), grade):
        trace = run(team)
    assert [point.event_id for point in told] == [event.id for event in points(trace)]
    assert {point.run_id for point in told} == {trace.trace_id}
    assert [(point.name, point.agent) for point in told[:2]] == [
        ("delegate", "team"),
        ("return", "writer"),
    ]
    assert told[0].advice is not None
    assert told[0].advice.model == model().version
    grades = [point.answer_now for point in read_course(trace).points]
    assert grades == [1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8, 6 / 8]


@pytest.mark.swallows_errors
def test_a_callback_that_fails_costs_the_host_nothing() -> None:
    """Its error is counted and logged; the advice is written all the same."""

    def fail(point: DecisionPoint) -> None:
        raise RuntimeError

    with orchtrace.advise(model(), fail):
        trace = run(team)
    assert len([event for event in points(trace) if "advice" in event.keys]) == 6
    site = next(site for site in _guard.swallowed if site.endswith("fail"))
    assert _guard.swallowed[site] == 6


@pytest.mark.swallows_errors
def test_a_callback_that_fails_is_named_with_the_class_of_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whose it is, where it stands and what it raised; what the error says may be content."""
    site = f"{__name__}.refuse"
    _guard.swallowed.pop(site, None)
    with orchtrace.advise(None, functools.partial(refuse, "the canary")):
        run(team)
    assert caplog.messages == [
        f"a callback of advise() failed in {site} with LookupError and costs what it would have "
        "said; further failures there are only counted; the traceback is logged at DEBUG"
    ]


def refuse(text: str, point: DecisionPoint) -> None:
    raise LookupError(text, point)


def test_what_a_callback_does_in_the_run_is_no_point_of_its_own() -> None:
    """It would be told of that too, for ever."""
    count: list[str] = []

    def decide(point: DecisionPoint) -> None:
        count.append(point.name)
        orchtrace.decide("meta", chosen="on")

    @orchtrace.team
    def small() -> None:
        orchtrace.decide("route", chosen="x")

    with orchtrace.advise(None, decide):
        trace = run(small)
    assert count == ["route", "stop"]
    assert [event["decision_point"] for event in points(trace)] == ["route", "stop"]


@pytest.mark.parametrize("answer", [None, True, "0.5", 1.5, -0.1, math.nan])
def test_only_a_probability_is_one(answer: Any) -> None:
    """Whatever else a callback returns is its own affair."""
    with orchtrace.advise(None, lambda point: answer):
        trace = run(team)
    assert not any("stop_probability" in event.keys for event in trace.events)


def test_what_the_host_observes_becomes_features() -> None:
    """Answers and results are hashed; no word of them is in the trace."""
    advisor = orchtrace.advise()

    @orchtrace.team
    def observed() -> None:
        advisor.observe(answer="canary one", verdict=0.25, plan=(1, 4), votes="aab")
        writer()
        advisor.observe(answer="canary one", verdict=0.75, is_done=True, heat=2.5)
        writer()
        advisor.observe(result="canary two canary three", answer="canary four canary five")
        writer()

    with advisor:
        trace = run(observed)
    assert "canary" not in trace.to_json()
    names = (
        "answer_unchanged",
        "verdict",
        "verdict_change",
        "plan_share",
        "agreement",
        "novelty",
        "self_report",
        "progress",
    )
    seen = [[event["features"][name] for name in names] for event in points(trace)[:3]]
    share = pytest.approx(2 / 3)
    assert seen == [
        [0, 0.25, 0, 0.25, share, 1, 0, 1],
        [1, 0.75, 0.5, 0.25, share, 1, 1, 1],
        [0, 0.75, 0.5, 0.25, share, 1, 1, 1],
    ]
    assert [event["features"].get("heat") for event in points(trace)] == [None, 2.5, 2.5, 2.5]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"verdict": math.nan}, "observe() needs verdict to be a number from 0 to 1, got nan"),
        ({"verdict": 7}, "observe() needs verdict to be a number from 0 to 1, got 7"),
        ({"plan": (3, 2)}, "needs plan to be (done, items), 0 <= done <= items, got (3, 2)"),
        ({"plan": (math.nan, 2)}, "needs plan to be (done, items)"),
        ({"heat": math.inf}, "observe() needs finite numbers, got heat=inf"),
    ],
)
def test_what_means_nothing_is_left_out_and_said_once(
    said: dict[str, Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A number that is none would spoil every later point of the run, and the log for learning."""
    advisor = orchtrace.advise()

    @orchtrace.team
    def observed() -> None:
        for _ in range(2):
            advisor.observe(**said, is_done="yes")
            writer()

    with advisor:
        trace = run(observed)
    assert trace.flags == ()
    names = ("verdict", "has_verdict", "plan_items", "plan_share", "self_report")
    assert [[event["features"][name] for name in names] for event in points(trace)] == [
        [0, 0, 0, 0, 1]
    ] * 3
    (record,) = caplog.records
    assert message in record.getMessage()


def test_the_same_again_without_news_is_a_loop() -> None:
    """Once the host says what changes; tools for polling are left out."""
    advisor = orchtrace.advise(pollable=["poll"])

    @orchtrace.team
    def looping() -> None:
        for _ in range(4):
            advisor.observe(answer="same")
            poll()
            writer()

    with advisor:
        trace = run(looping)
    assert [event["features"]["loop"] for event in points(trace)[:4]] == [0, 0, 1, 1]
    assert [event["features"]["repeats"] for event in points(trace)[:4]] == [0, 1, 2, 3]


def test_verdicts_come_from_rewards_of_judges_too() -> None:
    """Of family R6, or of a judge; others are no verdicts."""

    @orchtrace.team
    def judged() -> None:
        orchtrace.record_reward("speed", 0.1)
        orchtrace.record_reward("quality", 0.5, estimator="judge")
        writer()
        orchtrace.record_reward("debate", 0.75, family="R6")
        writer()

    with orchtrace.advise():
        found = [event["features"] for event in points(run(judged))]
    assert [(one["has_verdict"], one["verdict"], one["verdict_change"]) for one in found[:2]] == [
        (1, 0.5, 0.0),
        (1, 0.75, 0.25),
    ]


def test_failures_open_agents_and_depth_are_counted() -> None:
    """An agent that failed, one inside another, and what is open meanwhile."""

    @orchtrace.agent
    def outer() -> None:
        writer()

    @orchtrace.team
    def nested() -> None:
        for _ in range(2):
            with pytest.raises(LookupError):
                broken()
        outer()

    with orchtrace.advise():
        found = [event["features"] for event in points(run(nested))]
    names = ("last_ok", "failures_in_a_row", "open_agents", "depth", "agents")
    assert [[one[name] for name in names] for one in found[:4]] == [
        [0, 1, 0, 1, 1],
        [0, 2, 0, 1, 1],
        [1, 0, 1, 2, 3],
        [1, 0, 0, 1, 3],
    ]


def test_parallelism_is_that_of_the_finished_trace() -> None:
    """Work over the longest chain, as the measures say once the run is over."""

    @orchtrace.agent
    async def slow() -> None:
        await asyncio.sleep(0)
        poll()

    @orchtrace.team
    async def wide() -> None:
        await asyncio.gather(*(slow() for _ in range(4)))

    with orchtrace.advise(), recording() as captured:
        asyncio.run(wide())
    last = points(captured.trace)[-2]["features"]["parallelism"]
    metrics = captured.trace.metrics or {}
    assert last > 1
    assert last == pytest.approx(metrics["parallelism"], rel=0.35)


def test_features_that_an_adapter_wrote_stay_beside_ours() -> None:
    """Such as those of AutoGen's ledger."""

    @orchtrace.team
    def ledger() -> None:
        root = spans.current()
        assert root is not None
        spans.instant(
            root, "decide", attributes={"orchtrace.decision.features": ["is_in_loop=1", "step=9"]}
        )

    with orchtrace.advise():
        seen = points(run(ledger))[0]["features"]
    assert (seen["is_in_loop"], seen["step"]) == (1, 1)


def test_a_model_that_needs_more_than_is_seen_gives_no_advice_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The features are recorded; once the host observes what is missing there is advice."""
    needs = model("step", "heat")
    advisor = orchtrace.advise(needs)

    @orchtrace.team
    def heated() -> None:
        writer()
        advisor.observe(heat=1)
        writer()

    with advisor:
        found = points(run(heated))
    assert ["advice" in event.keys for event in found] == [False, True, True]
    assert "features must hold 'heat' as well" in caplog.text


def test_an_advisor_takes_a_file(tmp_path: Path) -> None:
    """As `orchtrace stop fit` writes it."""
    path = tmp_path / "model.json"
    model().save(path)
    with orchtrace.advise(path) as advisor:
        assert isinstance(advisor, Advisor)
        assert advisor.model == model()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"model": 3}, ConfigError, "model must be a StopValue or the path of its file, got int"),
        ({"callback": 3}, ConfigError, "callback must be callable with a decision point, got 3"),
        ({"max_tokens": 0}, ConfigError, "max_tokens must be a number above 0, got 0"),
        ({"max_seconds": math.inf}, ConfigError, "max_seconds must be a number above 0, got inf"),
        ({"max_tokens": "9"}, ConfigError, "max_tokens must be a number above 0, got '9'"),
        (
            {"pollable": "search"},
            ConfigError,
            "pollable must be names of tools, got 'search'; write pollable=['search']",
        ),
        (
            {"pollable": [len]},
            ConfigError,
            "pollable must be names of tools, got [<built-in function len>]; "
            "write pollable=['search']",
        ),
        (
            {"model": "missing.json"},
            ConfigError,
            "model must be the path of a stopping model that can be read, got 'missing.json' "
            "(No such file or directory); `orchtrace stop fit` writes one",
        ),
    ],
)
def test_set_up_fails_loudly(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    """And nothing is watched then."""
    with pytest.raises(kind) as caught:
        orchtrace.advise(**options)
    assert str(caught.value) == message
    assert spans.watchers == []


def test_a_file_that_is_no_model_is_refused_at_once(tmp_path: Path) -> None:
    """Not in the middle of a run."""
    path = tmp_path / "model.json"
    path.write_text("{}")
    with pytest.raises(StoppingError, match="must be a stopping model"):
        orchtrace.advise(str(path))
    assert spans.watchers == []


def test_nothing_of_a_run_waits_for_the_garbage_collector() -> None:
    """Agents run long: what watched a run goes when the run does."""
    made: list[weakref.ref[object]] = []

    def watch(run: spans.Run) -> spans.Watcher:
        watcher = make(run)
        made.append(weakref.ref(watcher))
        return watcher

    with orchtrace.advise(model()):
        make = spans.watchers[-1]
        spans.watchers.append(watch)
        gc.collect()
        gc.disable()
        try:
            with recording() as captured:
                team()
            captured.spans.clear()
            assert [ref() for ref in made] == [None]
        finally:
            gc.enable()
            spans.watchers.remove(watch)


def test_runs_that_go_on_at_once_do_not_mix() -> None:
    """Each has steps of its own."""

    @orchtrace.team
    async def one() -> None:
        await asyncio.sleep(0)
        writer()
        await asyncio.sleep(0)
        critic()

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(20)))

    with orchtrace.advise(), recording() as captured:
        asyncio.run(many())
    assert len(captured.traces) == 20
    for trace in captured.traces:
        assert [event["features"]["step"] for event in points(trace)] == [1, 2, 3]


def test_agents_in_threads_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point is a step of its own, one is counted at a time, and nothing gets lost."""
    told: list[float] = []
    counting: list[int] = []
    most: list[int] = []

    def slow_features(*given: Any) -> dict[str, float]:
        counting.append(1)
        most.append(len(counting))
        sum(range(5_000))  # long enough for another thread to come in, if it may
        counting.pop()
        return features_of(*given)

    @orchtrace.agent
    def works(text: str) -> str:
        poll()
        return text

    @orchtrace.team
    def wide() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(works, map(str, range(40))))

    monkeypatch.setattr(advisor_module, "features_of", slow_features)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            orchtrace.instrument(),
            orchtrace.advise(callback=lambda point: told.append(point.features["step"])),
        ):
            trace = run(wide)
    finally:
        sys.setswitchinterval(before)
    found = points(trace)
    returns = [event["features"] for event in found if event.verb == "return"]
    assert set(most) == {1}
    assert sorted(told) == sorted(event["features"]["step"] for event in found)
    assert sorted(told) == list(range(1, 42))
    assert found[-1]["features"]["open_agents"] == 0
    assert max(one["repeats"] for one in returns) == 39


def test_a_callback_may_wait_for_other_agents() -> None:
    """It holds nothing that they need: two that wait for each other both go on."""
    meet = threading.Barrier(2)

    @orchtrace.team
    def pair() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(writer, "ab"))

    def together(point: DecisionPoint) -> None:
        if point.agent == "writer":
            meet.wait(30)

    with orchtrace.instrument(), orchtrace.advise(callback=together):
        trace = run(pair)
    assert [event.verb for event in points(trace)] == ["return", "return", "stop"]
    assert not meet.broken


@pytest.mark.parametrize(
    ("calls", "loops"),
    [
        ("xa xa xa", [0, 0, 1]),
        ("xa xa ya xa", [0, 0, 0, 1]),
        ("xa xb xc xd", [0, 0, 0, 0]),
        ("xa ya za", [0, 0, 0]),
        ("xa yb xa yb xa", [0, 0, 0, 0, 1]),
        ("x! x! x!", [0, 0, 0]),
    ],
    ids=["thrice", "with another between", "results move", "arguments differ", "cycle", "retries"],
)
def test_calls_that_give_the_same_again_are_a_loop_where_content_is_captured(
    calls: str, loops: list[int], tmp_path: Path
) -> None:
    """By keyed hashes of arguments and results; seen at the next decision point."""

    @orchtrace.tool
    def look(where: str, *, answer: Iterator[str]) -> str:
        said = next(answer)
        if said == "!":
            raise LookupError
        return said

    @orchtrace.team
    def looping() -> None:
        for call in calls.split():
            with suppress(LookupError):
                look(call[0], answer=iter(call[1]))
            orchtrace.decide("again", chosen=call)

    with orchtrace.advise(), recording() as captured:
        set_up(Capture(mode="EVENT_ONLY", store=str(tmp_path)), None)
        try:
            looping()
        finally:
            recorder = content.use(None)
            assert recorder is not None
            recorder.shutdown(10)
    found = [event["features"]["loop"] for event in points(captured.trace)]
    assert found == [*loops, 0]


def test_without_content_the_same_call_is_a_repeat_and_no_loop() -> None:
    """What it was asked and what it gave is not looked at."""

    @orchtrace.team
    def looping() -> None:
        for _ in range(4):
            poll()
            with orchtrace.aggregate():
                pass

    with orchtrace.advise():
        found = [event["features"] for event in points(run(looping))]
    assert [one["loop"] for one in found] == [0] * 5
    assert [one["repeats"] for one in found[:4]] == [0, 1, 2, 3]


def test_where_the_root_is_elsewhere_no_advice_is_given_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process that sees a part of a run would take it for all of it."""

    @orchtrace.team
    def caller() -> None:
        headers.update(orchtrace.inject())

    headers: dict[str, str] = {}
    with recording():
        caller()
    with orchtrace.advise(), recording(), orchtrace.extract(headers):
        writer()
        critic()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "orchtrace gives no advice in runs whose root is in another process, since only a part of "
        "them is seen here; call advise() where the run begins"
    ]
