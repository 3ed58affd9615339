"""What an agent's own code says: spawn, delegate, message, decide, aggregate, stop, rewards."""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.utils import suppress_instrumentation

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard, spans
from orchtrace_otel.model import Reward
from orchtrace_otel.pipeline import Pipeline
from tests.given import given_records, given_rewards
from tests.trees import edges, recording, tree


@pytest.fixture(autouse=True)
def warnings_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see the warnings that a process gives once."""
    monkeypatch.setattr(_guard, "_told", set())
    monkeypatch.setattr(_guard, "swallowed", type(_guard.swallowed)())


@orchtrace.agent
def critic(text: str = "") -> str:
    return text + "?"


@orchtrace.agent
def writer(text: str = "") -> str:
    return text + "!"


@orchtrace.tool
def look_up() -> None: ...


def test_a_call_after_an_announced_spawn_begins_from_it() -> None:
    """The spawn is the instant, the call begins what was announced, a second one is new work."""

    @orchtrace.team
    def team() -> None:
        orchtrace.spawn("critic")
        critic()
        critic()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  spawn to critic < causal team#1.open\n"
        "  critic#1 begin < spawn spawn\n"
        "  critic#1.close\n"
        "  critic#1:2 delegate < causal spawn, return critic#1.close\n"
        "  critic#1:2.close\n"
        "  stop information_complete < causal spawn, return critic#1:2.close"
    )


def test_a_call_after_an_announced_delegation_begins_from_it() -> None:
    """The same life is used again; its cause is the delegation."""

    @orchtrace.team
    def team() -> None:
        critic()
        orchtrace.delegate("critic", task="the canary")
        critic()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  critic#1 spawn < spawn team#1.open\n"
        "  critic#1.close\n"
        "  delegate to critic < causal team#1.open, return critic#1.close\n"
        "  critic#1:2 begin < causal delegate\n"
        "  critic#1:2.close\n"
        "  stop information_complete < causal delegate, return critic#1:2.close"
    )
    assert "canary" not in captured.trace.to_json()


def test_several_announcements_of_one_agent_are_used_one_by_one() -> None:
    """A loop that delegates first and gathers then gives each call its own cause."""

    @orchtrace.agent
    async def worker(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @orchtrace.team
    async def team() -> None:
        for _ in range(2):
            orchtrace.spawn("worker")
        await asyncio.gather(worker(1), worker(2))

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -causal-> spawn",
        "spawn -causal-> spawn:2",
        "spawn -spawn-> worker#1.open",
        "spawn:2 -spawn-> worker#2.open",
        "spawn:2 -causal-> stop",
        "worker#1.close -return-> stop",
        "worker#2.close -return-> stop",
    }


def test_what_came_back_enters_what_the_caller_does_next() -> None:
    """A return is the cause of the next call, the next instant, or the caller's own close."""

    @orchtrace.agent
    def boss() -> None:
        critic()
        look_up()
        writer()
        orchtrace.decide("done", chosen="yes")

    with recording() as captured:
        boss()
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  boss#1 spawn < spawn orchestrator#1.open\n"
        "    critic#1 spawn < spawn boss#1.open\n"
        "    critic#1.close\n"
        "    look_up.open < causal boss#1.open, return critic#1.close\n"
        "    look_up.close\n"
        "    writer#1 spawn < spawn boss#1.open, tool_dependency look_up.close\n"
        "    writer#1.close\n"
        "    decide done yes < causal boss#1.open, return writer#1.close\n"
        "  boss#1.close < causal decide\n"
        "  stop information_complete < return boss#1.close"
    )


def test_a_message_enters_where_it_is_read() -> None:
    """The recipient's next activation reads all that waits, once, whoever sent it."""

    @orchtrace.agent
    def sender() -> None:
        orchtrace.message("critic", "the canary")
        orchtrace.message("critic", {"also": "the canary"})

    @orchtrace.team
    def team() -> None:
        sender()
        critic()
        critic()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  sender#1 spawn < spawn team#1.open\n"
        "    message to critic < causal sender#1.open\n"
        "    message:2 to critic < causal message\n"
        "  sender#1.close < causal message:2\n"
        "  critic#1 spawn"
        " < message message, message message:2, return sender#1.close, spawn team#1.open\n"
        "  critic#1.close\n"
        "  critic#1:2 delegate < causal team#1.open, return critic#1.close\n"
        "  critic#1:2.close\n"
        "  stop information_complete < return critic#1:2.close"
    )
    assert "canary" not in captured.trace.to_json()


def test_a_decision_says_what_was_chosen_and_among_what() -> None:
    """One choice is a text, several are a list; candidates may be any iterable."""

    @orchtrace.team
    def team() -> None:
        orchtrace.decide("route", chosen="critic", candidates=(one for one in ("critic", "writer")))
        orchtrace.decide("pick", chosen=["a", "b"])

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  decide route critic ['critic', 'writer'] < causal team#1.open\n"
        "  decide:2 pick ['a', 'b'] < causal decide\n"
        "  stop information_complete < causal decide:2"
    )


MERGES: dict[str, Callable[[str, str], Any]] = {
    "the results": lambda one, two: [one, two],
    "a tuple of them": lambda one, two: (one, two),
    "names": lambda one, two: ["critic", "writer"],
    "nothing said": lambda one, two: None,
}


@pytest.mark.parametrize("sources", MERGES.values(), ids=MERGES)
def test_an_aggregate_follows_from_what_it_merges(sources: Callable[[str, str], Any]) -> None:
    """By result, by name, or all that came back; what is called inside follows from it."""

    @orchtrace.team
    def team() -> str:
        one, two = critic("a"), writer("b")
        with orchtrace.aggregate(sources(one, two)):
            look_up()
            return one + two

    with recording() as captured:
        assert team() == "a?b!"
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  critic#1 spawn < spawn team#1.open\n"
        "  critic#1.close\n"
        "  writer#1 spawn < return critic#1.close, spawn team#1.open\n"
        "  writer#1.close\n"
        "  aggregate < aggregate critic#1.close, aggregate writer#1.close\n"
        "  look_up.open < causal aggregate\n"
        "  look_up.close\n"
        "  stop information_complete < causal aggregate, tool_dependency look_up.close"
    )


def test_an_aggregate_of_some_leaves_the_others() -> None:
    """What is not merged still came back; a result is merged once."""

    @orchtrace.team
    def team() -> None:
        one, _ = critic("a"), writer("b")
        with orchtrace.aggregate([one]):
            pass
        with orchtrace.aggregate():
            pass

    with recording() as captured:
        team()
    assert edges(captured.trace) == {
        "team#1.open -spawn-> critic#1.open",
        "team#1.open -spawn-> writer#1.open",
        "critic#1.close -return-> writer#1.open",
        "critic#1.close -aggregate-> aggregate",
        "writer#1.close -return-> aggregate",
        "writer#1.close -aggregate-> aggregate:2",
        "aggregate -causal-> aggregate:2",
        "aggregate:2 -causal-> stop",
    }


def test_an_aggregate_of_nothing_known_is_recorded_and_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It gets no edge from what it cannot place, and the warning names no content."""

    @orchtrace.team
    def team() -> None:
        with orchtrace.aggregate([{"a": "the canary"}]):
            pass

    with recording() as captured:
        team()
    assert edges(captured.trace) == {"team#1.open -causal-> aggregate", "aggregate -causal-> stop"}
    assert "got a dict that is neither" in caplog.text
    assert "canary" not in caplog.text


def test_an_error_in_an_aggregate_is_the_hosts_and_the_aggregates() -> None:
    """It passes through as the same object."""
    error = ValueError("the canary")

    @orchtrace.team
    def team() -> None:
        with orchtrace.aggregate():
            raise error

    with recording() as captured:
        with pytest.raises(ValueError, match="canary") as caught:
            team()
        assert caught.value is error
    assert "  aggregate ValueError [error] < causal team#1.open\n" in tree(captured.trace)


def test_an_aggregate_in_a_coroutine_covers_what_it_awaits() -> None:
    """Its length is that of the block."""

    @orchtrace.team
    async def team() -> None:
        with orchtrace.aggregate():
            await asyncio.sleep(0)
            critic()

    with recording() as captured:
        asyncio.run(team())
    aggregated = captured.trace.events[1]
    assert aggregated.verb == "aggregate"
    assert aggregated["duration_s"] > 0


def test_a_stop_says_why_the_run_stops_when_it_does() -> None:
    """Any agent may say it; it is the run's last event."""

    @orchtrace.agent
    def judge() -> None:
        orchtrace.stop("quality_met", "score above 0.9")

    @orchtrace.team
    def team() -> None:
        judge()
        writer()

    with recording() as captured:
        team()
    assert tree(captured.trace).splitlines()[-1] == (
        "  stop quality_met score above 0.9 < return writer#1.close"
    )


def test_an_error_goes_before_the_stop_that_was_said() -> None:
    """A run that fails after all did not stop for that reason."""

    @orchtrace.team
    def team() -> None:
        orchtrace.stop("quality_met")
        raise ValueError

    with recording() as captured, pytest.raises(ValueError):  # noqa: PT011 - of the test itself
        team()
    assert captured.trace.events[-1]["stop_reason"] == "error"


def test_an_unknown_stop_reason_is_recorded_as_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """It is kept as the detail, and a warning lists what it must be."""

    @orchtrace.team
    def team() -> None:
        orchtrace.stop("bored")

    with recording() as captured:
        team()
    assert tree(captured.trace).splitlines()[-1].startswith("  stop unknown bored")
    assert "needs one of information_complete" in caplog.text


EVERY_VERB: dict[str, Callable[[], object]] = {
    "spawn": lambda: orchtrace.spawn("a"),
    "delegate": lambda: orchtrace.delegate("a", task="x"),
    "message": lambda: orchtrace.message("a", "x"),
    "decide": lambda: orchtrace.decide("a", chosen="b"),
    "stop": lambda: orchtrace.stop("quality_met"),
    "current_run": orchtrace.current_run,
}


@pytest.mark.parametrize("verb", EVERY_VERB.values(), ids=EVERY_VERB)
def test_outside_a_run_verbs_do_nothing(
    verb: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    """No span, no warning, no value; with a listener and without."""
    assert verb() is None
    with orchtrace.aggregate([1]):
        pass
    with recording() as captured:
        assert verb() is None
        with orchtrace.aggregate([1]):
            pass
    assert captured.started == 0
    assert caplog.records == []


def test_verbs_after_the_run_has_stopped_do_nothing() -> None:
    """A task that outlives its run cannot add to it by verbs."""

    @orchtrace.team
    async def team() -> "asyncio.Task[None]":
        async def late() -> None:
            await asyncio.sleep(0)
            orchtrace.decide("late", chosen="x")
            orchtrace.spawn("late")
            orchtrace.message("late")
            with orchtrace.aggregate():
                pass

        return asyncio.create_task(late())

    async def main() -> None:
        await (await team())

    with recording() as captured:
        asyncio.run(main())
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]


def test_where_instrumentation_is_suppressed_verbs_do_nothing() -> None:
    """Not a span, an edge, a reward or a reason to stop; what is announced there is forgotten."""

    @orchtrace.agent("scout")
    def scout() -> str:
        return "found"

    @orchtrace.team("team")
    def team() -> str:
        with suppress_instrumentation():
            orchtrace.spawn("scout")
            orchtrace.delegate("scout", task="look")
            orchtrace.message("scout", "hurry")
            orchtrace.decide("route", chosen="scout")
            orchtrace.stop("no_progress")
            orchtrace.record_reward("quality", 1.0)
            with orchtrace.aggregate():
                found = scout()
        return found + scout()

    with recording() as captured:
        assert team() == "foundfound"
    trace = captured.trace
    verbs = [event.verb for event in trace.events]
    assert verbs == ["begin", "spawn", "return", "stop"]
    assert trace.stop is not None
    assert trace.stop["stop_reason"] == "information_complete"
    assert given_rewards(trace) == {}


class Hostile:
    """An object that fails at whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("the canary")

    __repr__ = __str__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the canary")

    def __iter__(self) -> None:
        raise RuntimeError("the canary")


WRONG: dict[str, Callable[[Any], object]] = {
    "spawn": orchtrace.spawn,
    "delegate": lambda wrong: orchtrace.delegate(wrong, task=wrong),
    "message": lambda wrong: orchtrace.message(wrong, wrong),
    "message content": lambda wrong: orchtrace.message("critic", wrong),
    "decide": lambda wrong: orchtrace.decide(
        wrong, chosen=wrong, candidates=wrong, probability=wrong
    ),
    "stop": lambda wrong: orchtrace.stop(wrong, wrong),
    "aggregate": lambda wrong: orchtrace.aggregate(sources=wrong).__enter__(),
    "aggregate of": lambda wrong: orchtrace.aggregate([wrong]).__enter__(),
    "reward": lambda wrong: orchtrace.record_reward(wrong, value=wrong),
    "reward run": lambda wrong: orchtrace.record_reward("a", 1, run_id=wrong),
    **{
        f"reward {field}": lambda wrong, field=field: orchtrace.record_reward(  # type: ignore[misc]
            "a", 1, **{field: wrong}
        )
        for field in (
            "event_id",
            "family",
            "unit",
            "target",
            "estimator",
            "provisional",
            "n",
            "se",
            "version",
        )
    },
    "chosen": lambda wrong: orchtrace.decide("a", chosen=[wrong], candidates=[wrong]),
    "detail": lambda wrong: orchtrace.stop("quality_met", wrong),
}
HALF = "caf\ud83d"  # a model broke off in the middle of an emoji


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    "wrong",
    [None, 1 << 70, 1.5, True, b"bytes", HALF, ["a"], {}, object(), Hostile()],
    ids=type,
)
@pytest.mark.parametrize("verb", WRONG.values(), ids=WRONG)
def test_wrong_arguments_never_raise_and_cost_no_trace(
    verb: Callable[[Any], object], wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The host goes on, the trace is whole and valid, and no log tells what it came from."""
    caplog.set_level(logging.WARNING)

    @orchtrace.team
    def team() -> str:
        before = otel_context.get_current()
        verb(wrong)
        token = otel_context.attach(before)
        otel_context.detach(token)
        return writer("on")

    with recording_loosely() as captured:
        assert team() == "on!"
    assert captured.trace.events[-1].verb == "stop"
    assert "writer" in [event.get("to") for event in captured.trace.events]
    assert "canary" not in caplog.text
    assert {"garbled", "rewards_unreadable"}.isdisjoint(captured.trace.flags)
    assert captured.spans[-1].name == "invoke_workflow team"
    assert encode_spans(captured.spans).ByteSize()
    assert "Failed to encode" not in caplog.text


def recording_loosely() -> Any:
    """Record without the check of open spans: a test here enters a block and never leaves it."""
    from orchtrace_otel.testing import capture

    return capture(deterministic=True)


# -- rewards ----------------------------------------------------------------------------


def test_a_reward_in_a_run_is_the_runs() -> None:
    """A team's reward is in `rewards`, with its record beside it."""

    @orchtrace.team
    def team() -> None:
        orchtrace.record_reward("correctness", 1)
        orchtrace.record_reward("style", 0.5, target="writer", family="R3", estimator="judge")

    with recording() as captured:
        team()
    assert given_rewards(captured.trace) == {"correctness": 1.0}
    assert [
        (one.component, one.value, one.unit, one.target, one.family, one.estimator)
        for one in given_records(captured.trace)
    ] == [
        ("correctness", 1.0, "team", None, "R1", "outcome"),
        ("style", 0.5, "agent", "writer", "R3", "judge"),
    ]


def test_a_reward_after_the_run_amends_it() -> None:
    """With the run's id, from outside; the id of an event makes it that event's."""
    seen: list[str] = []

    @orchtrace.team
    def team() -> None:
        run = orchtrace.current_run()
        assert run is not None
        seen.append(run.id)

    with recording() as captured:
        team()
        orchtrace.record_reward("correctness", 1.0, run_id=seen[0])
        orchtrace.record_reward("step", 0.0, run_id=seen[0], event_id="abc.close")
    assert given_rewards(captured.trace) == {}
    assert [(run, r.component, r.value, r.unit, r.target) for run, r in captured.rewards] == [
        (seen[0], "correctness", 1.0, "team", None),
        (seen[0], "step", 0.0, "turn", "abc.close"),
    ]


def test_a_reward_for_an_open_run_that_is_not_current_reaches_it() -> None:
    """A judge in another thread or task, that only has the id, need not wait for the end."""
    with recording() as captured:

        @orchtrace.team
        def team() -> None:
            run = orchtrace.current_run()
            assert run is not None
            token = otel_context.attach(otel_context.Context())
            orchtrace.record_reward("correctness", 1.0, run_id=run.id)
            otel_context.detach(token)

        team()
    assert given_rewards(captured.trace) == {"correctness": 1.0}
    assert captured.rewards == []


def test_a_reward_with_nowhere_to_go_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """It is lost, and a warning says what it needs."""
    orchtrace.record_reward("correctness", 1.0)
    orchtrace.record_reward("correctness", 1.0)
    assert caplog.text.count("needs a current run, or a run_id after configure()") == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"value": float("nan")}, "a value that is a finite number, got nan"),
        ({"value": float("inf")}, "a value that is a finite number, got inf"),
        ({"value": "so much"}, "a value that is a finite number, got a str"),
        ({"value": None}, "a value that is a finite number, got a NoneType"),
        ({"value": 1, "family": "R9"}, "family to be one of R1, R2, R3"),
        ({"value": 1, "unit": "planet"}, "got 'planet'; the reward is lost"),
        ({"value": 1, "estimator": "guess"}, "got 'guess'; the reward is lost"),
    ],
    ids=str,
)
def test_a_wrong_reward_is_logged_not_raised(
    wrong: dict[str, Any], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it is recorded, and the log says what must hold and what came."""

    @orchtrace.team
    def team() -> str:
        orchtrace.record_reward("x", **wrong)
        return "done"

    with recording() as captured:
        assert team() == "done"
    assert given_records(captured.trace) == []
    assert says in caplog.text


def test_a_wrong_decision_is_logged_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    """The log says what must hold and what came; what was given is not told."""

    @orchtrace.team
    def team() -> None:
        orchtrace.decide("route", chosen=None)  # type: ignore[arg-type]
        orchtrace.decide("route", chosen="a", candidates=5)  # type: ignore[arg-type]

    with recording() as captured:
        team()
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]
    assert "chosen to be a text or several, got a NoneType; the decision is lost" in caplog.text
    assert "candidates to be a text or several, got 5; the decision is lost" in caplog.text


def test_a_name_that_is_none_is_logged_not_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """Of an agent or a reward: a trace names them, so that nothing may stand for them."""

    @orchtrace.team
    def team() -> None:
        orchtrace.spawn(None)  # type: ignore[arg-type]
        orchtrace.delegate("")
        orchtrace.message(3)  # type: ignore[arg-type]
        orchtrace.record_reward("", 1)

    with recording() as captured:
        team()
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]
    assert (captured.trace.flags, given_records(captured.trace)) == ((), [])
    must = "that is a text with something in it, got"
    for told in (
        f"spawn() needs an agent {must} a NoneType; the spawn is lost",
        f"delegate() needs an agent {must} a str; the delegate is lost",
        f"message() needs a recipient {must} 3; the message is lost",
        f"record_reward() needs a component {must} a str; the reward is lost",
    ):
        assert told in caplog.text


def test_a_decision_keeps_the_chance_of_its_choice(caplog: pytest.LogCaptureFixture) -> None:
    """What is no chance is told and left out; the decision stays."""

    @orchtrace.team
    def team() -> None:
        orchtrace.decide("route", chosen="a", candidates="ab", probability=0.25)
        orchtrace.decide("route", chosen="a", probability=1.5)

    with recording() as captured:
        team()
    decided = [event for event in captured.trace.events if event.verb == "decide"]
    assert [event.get("behavior_prob") for event in decided] == [0.25, None]
    assert "a probability above 0 and at most 1, got 1.5; the chance is lost" in caplog.text


def test_a_decision_writes_out_nothing_of_the_hosts(caplog: pytest.LogCaptureFixture) -> None:
    """An object that was chosen may hold content: it is not turned into a text."""

    @orchtrace.team
    def team() -> None:
        orchtrace.decide("route", chosen={"prompt": "a secret"}, candidates=["a", 2])
        orchtrace.decide("route", chosen="a", candidates=[{"prompt": "a secret"}])  # type: ignore[list-item]

    with recording() as captured:
        team()
    assert [event.get("candidates") for event in captured.trace.events if event.verb == "decide"]
    assert "secret" not in captured.trace.to_json() + caplog.text


def test_one_name_may_stand_for_the_list_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """A text is one agent or candidate, not its letters."""

    @orchtrace.team
    def team() -> None:
        critic()
        with orchtrace.aggregate("critic"):
            pass
        orchtrace.decide("route", chosen="critic", candidates="critic")

    with recording() as captured:
        team()
    assert "  aggregate < aggregate critic#1.close" in tree(captured.trace)
    assert captured.trace.events[-2]["candidates"] == ["critic"]
    assert caplog.text == ""


def test_a_teams_reward_function_gets_the_result() -> None:
    """A number is the task's reward; a mapping gives several by component."""
    with recording() as captured:
        assert orchtrace.team("one", reward=len)(lambda: "four")() == "four"
        both = orchtrace.team("two", reward=lambda result: {"exact": 1, "short": 0.5})
        assert asyncio.run(both(_give)(3)) == 3
    assert [given_rewards(trace) for trace in captured.traces] == [
        {"task": 4.0},
        {"exact": 1.0, "short": 0.5},
    ]


async def _give(value: object) -> object:
    return value


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param(lambda result: 1 / 0, id="raises"),
        pytest.param(lambda result: float("nan"), id="nan"),
        pytest.param(lambda result: None, id="none"),
        pytest.param(lambda result: "much", id="text"),
    ],
)
def test_a_reward_function_that_fails_costs_the_reward_not_the_run(
    reward: Callable[[object], Any],
) -> None:
    """The result comes back, the run is ok, and a flag says that the reward is missing."""
    with recording() as captured:
        assert orchtrace.team("t", reward=reward)(lambda: "done")() == "done"
    assert given_rewards(captured.trace) == {}
    assert captured.trace.flags == ("reward_failed:task",)
    assert captured.trace.events[-1]["status"] == "ok"


class Judge:
    """A reward function that is an object."""

    def __call__(self, result: object) -> float:
        msg = "the canary"
        raise LookupError(msg)


_JUDGE = f"{__name__}.Judge"
_LAMBDA = rf"{re.escape(__name__)}\.<lambda>:\d+"
_OUT = "it is left out, with the flag reward_failed:"


@pytest.mark.parametrize(
    ("reward", "told", "flag"),
    [
        pytest.param(
            Judge(),
            f"a reward function failed in {_JUDGE} with LookupError and costs its reward, with the "
            "flag reward_failed:task; further failures there are only counted; the traceback is "
            "logged at DEBUG",
            "task",
            id="raises",
        ),
        pytest.param(
            lambda result: {"style": "the canary"},
            rf"reward 'style' must be a number that a float can hold, got str, from {_LAMBDA}; "
            f"{_OUT}task",
            "task",
            id="text",
        ),
        pytest.param(
            lambda result: {"style": float("nan")},
            rf"a reward function, {_LAMBDA}, gave a reward whose value must be a finite number; "
            f"{_OUT}style",
            "style",
            id="nan",
        ),
        pytest.param(
            lambda result: {"": 1.0},
            rf"a reward function, {_LAMBDA}, gave a reward whose component must be a text of UTF-8 "
            f"with something in it; {_OUT}task",
            "task",
            id="no component",
        ),
    ],
)
def test_a_reward_function_that_fails_is_named(
    reward: Callable[[object], Any], told: str, flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who reads the log knows which of their functions it was, and what was wrong with it."""
    with recording() as captured:
        orchtrace.team("t", reward=reward)(lambda: "done")()
    said, lost = caplog.messages
    assert re.fullmatch(told, said)
    assert lost == (
        f"orchtrace lost data (rewards_failed, reward_failed:{flag}); further losses of this kind "
        "are counted, and told at shutdown"
    )
    assert captured.trace.flags == (f"reward_failed:{flag}",)
    assert given_rewards(captured.trace) == {}


def test_an_interrupt_in_a_reward_function_is_the_hosts_and_ends_the_run() -> None:
    """The trace is whole, and nothing stays open."""

    def judge(_: object) -> float:
        raise KeyboardInterrupt

    @orchtrace.team(reward=judge)
    def team() -> str:
        return "done"

    with recording() as captured, pytest.raises(KeyboardInterrupt):
        team()
    assert captured.trace.stop["stop_reason"] == "information_complete"
    assert captured.started == captured.ended


def test_a_run_that_failed_gets_no_reward_from_its_function() -> None:
    """There is no result to rate."""

    @orchtrace.team(reward=lambda result: 1.0)
    def team() -> None:
        raise ValueError

    with recording() as captured, pytest.raises(ValueError):  # noqa: PT011 - of the test itself
        team()
    assert given_rewards(captured.trace) == {}


def test_a_reward_of_numpys_numbers_is_taken() -> None:
    """Judges compute with them; a trace holds Python's."""
    numpy = pytest.importorskip("numpy")

    @orchtrace.team(reward=lambda _: numpy.float32(0.5))
    def team() -> None:
        orchtrace.record_reward("x", numpy.float64(1), n=numpy.int64(3), se=numpy.float64(0.25))
        run = orchtrace.current_run()
        assert run is not None
        run.record(Reward(id="mine", component="y", value=numpy.float64(2)))

    with recording() as captured:
        team()
    assert captured.trace.flags == ()
    assert given_rewards(captured.trace) == {"x": 1.0, "y": 2.0, "task": 0.5}


def test_a_reward_that_is_unsound_costs_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Handed to the run itself it meets the run's own check; the trace says that it is out."""

    @orchtrace.team
    def team() -> None:
        run = orchtrace.current_run()
        assert run is not None
        run.record(Reward(id="mine", component=HALF, value=2))
        orchtrace.record_reward("sound", 1)

    with recording() as captured:
        team()
    assert captured.trace.flags == ("rewards_unreadable",)
    assert given_rewards(captured.trace) == {"sound": 1.0}
    assert (
        "a reward's component must be a text of UTF-8 with something in it; the reward is lost"
        in caplog.text
    )


@pytest.mark.swallows_errors
def test_a_root_ends_whatever_fails_at_its_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans below it would hang in the air, and the failure is ours."""

    @orchtrace.team
    def team() -> str:
        return "done"

    with recording() as captured:
        monkeypatch.setattr(Pipeline, "closing", lambda *_: 1 / 0)
        assert team() == "done"
    assert [span.name for span in captured.spans] == ["stop", "invoke_workflow team"]
    assert captured.started == captured.ended


# -- the current run ------------------------------------------------------------------------


def test_the_current_run_is_known_inside_and_only_there() -> None:
    """Its id is that of the trace, and its trace id that of the spans."""
    seen: list[spans.Run | None] = []

    @orchtrace.tool
    def look() -> None:
        seen.append(orchtrace.current_run())

    @orchtrace.team
    def team() -> None:
        seen.append(orchtrace.current_run())
        look()

    with recording() as captured:
        team()
    assert orchtrace.current_run() is None
    assert [run.id for run in seen if run is not None] == [captured.trace.trace_id] * 2
    assert seen[0] is seen[1]
    assert seen[0] is not None
    context = captured.spans[-1].get_span_context()
    assert context is not None
    assert int(seen[0].trace_id, 16) == context.trace_id
