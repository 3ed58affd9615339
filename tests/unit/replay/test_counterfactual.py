"""Each method, from replays to numbers; what is lost costs itself alone."""

import asyncio
import math
import random
import threading

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.model import Edge, Event, Reward, Trace
from orchtrace_otel.replay import Change, Part, Slot
from orchtrace_otel.replay.estimate import Estimate
from orchtrace_otel.testing import capture
from orchtrace_otel.testing.world import make_world


def names(found):
    return {effect.player.name: effect.value for effect in found.effects}


def test_leave_one_out_is_the_sheets(trace, team, sheet_game) -> None:
    """Section 5.2: .7, .8, .1; synergy is counted twice."""
    found = orchtrace.counterfactual(trace, sheet_game, team, replays=4)
    assert names(found) == pytest.approx({"A": 0.7, "B": 0.8, "C": 0.1})


def test_shapley_is_the_sheets(trace, team, sheet_game) -> None:
    """Section 5.2, through real replays; all that the team adds is shared out."""
    found = orchtrace.counterfactual(trace, sheet_game, team, method="shapley", replays=1)
    assert {name: round(v, 4) for name, v in names(found).items()} == {
        "A": 0.4333,
        "B": 0.5333,
        "C": 0.0333,
    }
    assert found.replays == 8


def test_banzhaf_is_the_sheets(trace, team, sheet_game) -> None:
    """Section 5.2."""
    found = orchtrace.counterfactual(trace, sheet_game, team, method="banzhaf", replays=1)
    assert names(found) == pytest.approx({"A": 0.425, "B": 0.525, "C": 0.025})


def test_one_opposite_pair_of_orders_is_the_sheets(trace, team, sheet_game) -> None:
    """Section 5.2: the pair ABC and CBA gives .45, .50, .05."""
    lots = ([dice.random() for _ in team] for dice in map(random.Random, range(100)))
    seed = next(seed for seed, lot in enumerate(lots) if lot == sorted(lot))
    found = orchtrace.counterfactual(
        trace, sheet_game, team, method="permutations", replays=2, seed=seed
    )
    assert names(found) == pytest.approx({"A": 0.45, "B": 0.50, "C": 0.05})


def test_many_orders_come_near_to_shapley(trace, team, sheet_game) -> None:
    """Within three standard errors, and the sum is exact in every order."""
    found = orchtrace.counterfactual(trace, sheet_game, team, method="permutations", replays=200)
    for effect, exact in zip(found.effects, (0.4333, 0.5333, 0.0333), strict=True):
        assert abs(effect.value - exact) <= 3 * effect.estimate.se + 1e-3
        assert effect.estimate.n == 100
    assert sum(names(found).values()) == pytest.approx(1.0)


def test_truncated_orders_are_biased_by_no_more_than_was_allowed(trace, team, sheet_game) -> None:
    """Who is not in yet adds 0 once the value is near to that of all."""
    full = orchtrace.counterfactual(trace, sheet_game, team, method="permutations", replays=100)
    short = orchtrace.counterfactual(
        trace, sheet_game, team, method="permutations", replays=100, truncation=0.1
    )
    assert sum(names(short).values()) == pytest.approx(1.0, abs=0.1 + 1e-9)
    for name, value in names(full).items():
        assert names(short)[name] == pytest.approx(value, abs=0.1 + 1e-9)


def test_r_msg_is_the_sheets() -> None:
    """Section 4: 3 of 5 succeed, 1.5 s of 30 s at kappa .5: .375; pure filler -.025."""
    reward = Reward(id="r", component="outcome", value=1.0)
    keys = {"activation": "L", "status": "ok"}
    events = (
        Event("L.open", 0.0, "message", "user", {**keys, "verb": "begin", "to": "lead"}),
        Event(
            "W.open",
            0.0,
            "spawn",
            "lead",
            {"verb": "spawn", "activation": "W", "parent": "L", "to": "scout", "status": "ok"},
        ),
        Event(
            "m",
            1.5,
            "message",
            "scout",
            {"verb": "message", "activation": "W", "from": "scout", "to": "lead", "status": "ok"},
        ),
        Event(
            "W.close",
            1.5,
            "return",
            "scout",
            {"verb": "return", "activation": "W", "status": "ok", "from": "scout", "to": "lead"},
        ),
        Event(
            "s",
            2.5,
            "orchestrator_decision",
            "lead",
            {
                **keys,
                "verb": "stop",
                "stop_reason": "verified",
                "reward_records": [reward.to_dict()],
            },
        ),
    )
    edges = (
        Edge("L.open", "W.open", "spawn"),
        Edge("W.open", "m", "causal"),
        Edge("W.open", "W.close", "causal"),
        Edge("m", "s", "message"),
        Edge("L.open", "s", "causal"),
    )
    trace = Trace("run", "task", events, edges, {"outcome": 1.0}, {"tokens": 0, "wall_clock_s": 3})
    slot = Slot("scout", "lead", 1)

    def again(change: Change, seed: int) -> float:
        return float(seed < 3)

    useful = orchtrace.counterfactual(
        trace, again, replays=5, baseline="recorded", budget_s=30, latency_weight=0.5
    )[slot]
    assert useful.event == "m"
    assert useful.value == pytest.approx(0.4)
    assert [round(1 - end, 3) for end in (useful.estimate.high, useful.estimate.low)] == [
        0.231,
        0.882,
    ]
    assert useful.r_msg == pytest.approx(0.4 - 0.5 * useful.delay_s / 30)
    filler = orchtrace.counterfactual(
        trace, lambda change, seed: 1.0, replays=5, baseline="recorded", budget_s=30
    )[slot]
    assert filler.value == 0.0
    assert filler.r_msg == pytest.approx(-0.5 * filler.delay_s / 30)


def test_alternatives_are_compared_with_each_other(trace) -> None:
    """C3: what was sent and two others, all of one message, all else frozen."""
    slot = Slot("planner", "coder", 1)
    means = {None: 0.8, "vague": 0.4, "other": 0.6}

    def again(change: Change, seed: int) -> float:
        assert change.touched == {slot}
        return means[change.edits.get(slot)]

    found = orchtrace.counterfactual(
        trace, again, method="alternatives", alternatives={slot: ["vague", "other"]}, replays=5
    )
    assert [effect.alternative for effect in found.effects] == [None, "vague", "other"]
    assert [effect.value for effect in found.effects] == pytest.approx([0.3, -0.3, 0.0])
    assert [effect.estimate.n for effect in found.effects] == [5, 5, 5]


def test_one_that_is_left_alone_has_no_advantage_and_no_interval(trace) -> None:
    """The others were blocked: 0 by definition, and not the interval of its own mean."""

    def again(change, seed):
        if change.edits:
            raise ReplayBlockedError("no")
        return float(seed % 2)

    slot = Slot("scout", "lead", 1)
    found = orchtrace.counterfactual(
        trace, again, method="alternatives", alternatives={slot: ["other"]}, replays=6
    )
    alone, blocked = (effect.estimate for effect in found.effects)
    assert alone == Estimate(0.0, 6)
    assert blocked == Estimate(None, 0)


def test_alternatives_stop_early_too(trace) -> None:
    """All of a message's, once each is narrow."""
    slot = Slot("planner", "coder", 1)
    found = orchtrace.counterfactual(
        trace,
        lambda change, seed: 0.5 + 0.01 * (seed % 3),
        method="alternatives",
        alternatives={slot: ["other"]},
        replays=1000,
        width=0.05,
    )
    assert found.replays == 40
    assert all(effect.is_narrow for effect in found.effects)


def test_an_interrupted_question_begins_no_more_replays(trace, team) -> None:
    """Threads that are at work end their replay, and take no other."""
    ran = []
    may_go_on = threading.Event()

    def again(change: Change, seed: int) -> float:
        ran.append(seed)
        if len(ran) > 1:
            may_go_on.wait(60)
        return 1.0

    def interrupt(now: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        orchtrace.counterfactual(trace, again, team, replays=50, workers=2, progress=interrupt)
    may_go_on.set()
    threads = [t for t in threading.enumerate() if t.name == "orchtrace-replay"]
    for thread in threads:
        thread.join(30)
    assert len(ran) <= 4


def test_an_edited_field_is_compared_with_the_original(trace) -> None:
    """LEMON: the reward of the edited run minus that of the original."""
    capacity = Part("capacity", "coder.model")

    def again(change: Change, seed: int) -> float:
        return 0.9 if change.edits.get(capacity) == "large" else 0.5

    found = orchtrace.counterfactual(
        trace, again, method="edits", alternatives={capacity: "large"}, replays=6
    )
    (effect,) = found.effects
    assert (effect.alternative, effect.value) == ("large", pytest.approx(0.4))
    assert found.rewards() == []


def test_a_replay_that_raises_costs_itself_alone(trace, team, sheet_game) -> None:
    """It is counted by its player, and the others keep every number."""

    def again(change: Change, seed: int) -> float:
        if team[0] in change.without and seed % 2:
            raise KeyError(seed)
        if team[1] in change.without:
            return float("nan")
        return sheet_game(change, seed)

    found = orchtrace.counterfactual(trace, again, team, replays=20)
    assert found[team[0]].value == pytest.approx(0.7)
    assert found[team[0]].lost == {"failed": 5}
    assert (found[team[1]].value, found[team[1]].lost) == (None, {"failed": 10})
    assert found[team[2]].value == pytest.approx(0.1)
    assert (found.replays, found.lost) == (60, {"failed": 15})


def test_a_replay_that_never_ends_is_left_behind(trace, team, sheet_game) -> None:
    """Its thread is counted, another takes its place, and what it would bring is dropped."""
    release = threading.Event()

    def again(change: Change, seed: int) -> float:
        if team[0] in change.without:
            release.wait(60)
        return sheet_game(change, seed)

    found = orchtrace.counterfactual(trace, again, team, replays=4, workers=1, timeout_s=0.05)
    release.set()
    assert (found[team[0]].value, found[team[0]].lost) == (None, {"timed_out": 2})
    assert found[team[1]].value == pytest.approx(0.8)
    assert found.left_behind == 2


def test_where_too_many_never_end_no_more_are_started(trace, team, monkeypatch) -> None:
    """All that is left is counted as without a value, and the call comes back."""
    monkeypatch.setattr("orchtrace_otel.replay.running.MOST_LEFT_BEHIND", 3)
    release = threading.Event()

    def again(change: Change, seed: int) -> float:
        release.wait(60)
        return 1.0

    found = orchtrace.counterfactual(trace, again, team, replays=10, workers=2, timeout_s=0.05)
    release.set()
    assert found.lost == {"timed_out": 30}
    assert [effect.value for effect in found.effects] == [None, None, None]


def test_coroutine_functions_are_awaited(trace, team, sheet_game) -> None:
    """Frameworks under asyncio replay as they run."""

    async def again(change: Change, seed: int) -> float:
        await asyncio.sleep(0)
        return sheet_game(change, seed)

    found = orchtrace.counterfactual(trace, again, team, method="shapley", replays=1)
    assert sum(names(found).values()) == pytest.approx(1.0)


def test_replays_run_at_once(trace, team) -> None:
    """Four workers meet at a barrier that one alone would never pass."""
    barrier = threading.Barrier(4, timeout=30)

    def again(change: Change, seed: int) -> float:
        barrier.wait()
        return 1.0

    found = orchtrace.counterfactual(trace, again, team[:2], replays=4, workers=4)
    assert found.lost == {}


def test_nothing_is_traced_in_replays(trace, team) -> None:
    """A replayed team leaves no run, no span and no reward behind."""

    @orchtrace.team
    def work() -> float:
        return 1.0

    with capture() as captured:
        orchtrace.counterfactual(trace, lambda change, seed: work(), team, replays=4)
        assert captured.started == 0
        work()
    assert len(captured.traces) == 1


def test_replays_inside_of_a_run_leave_that_run_alone(trace, team) -> None:
    """Verbs and agents in a replay add nothing to the run that asks, which goes on."""

    @orchtrace.agent
    def helper() -> None:
        orchtrace.message("lead", "x")

    def again(change: Change, seed: int) -> float:
        orchtrace.decide("next", chosen="a")
        orchtrace.spawn("a")
        orchtrace.stop("verified")
        helper()
        return 1.0

    @orchtrace.team
    def ask() -> None:
        orchtrace.counterfactual(trace, again, team, replays=4)
        orchtrace.decide("after", chosen="b")

    with capture() as captured:
        ask()
    assert [event.verb for event in captured.trace.events] == ["begin", "decide", "stop"]
    assert captured.trace.stop["stop_reason"] == "information_complete"


def test_narrow_intervals_stop_early() -> None:
    """A player whose interval is narrow enough gets no more replays, the others do."""
    world = make_world(3, "planner_executor_critic")
    found = orchtrace.counterfactual(world.trace, world.replay, replays=2000, width=0.1)
    assert found.replays < 2000 * len(found.effects) / 4
    for effect in found.effects:
        assert effect.is_narrow
        assert effect.estimate.width <= 0.1
        assert abs(effect.value - world.effect(effect.player)) < 0.1


def test_progress_is_told_after_each_replay(trace, team, sheet_game) -> None:
    """How many are done, of how many, and how many have no value."""
    seen = []
    orchtrace.counterfactual(trace, sheet_game, team, replays=4, progress=seen.append)
    assert [one.done for one in seen] == list(range(1, 13))
    assert {one.most for one in seen} == {12}
    assert {one.without_value for one in seen} == {0}


def test_a_bar_is_shown_where_it_is_asked_for(trace, team, sheet_game, capsys) -> None:
    """Rich draws it; the numbers are the same."""
    found = orchtrace.counterfactual(trace, sheet_game, team, replays=4, progress=True)
    assert "12/12" in capsys.readouterr().out
    assert names(found) == pytest.approx({"A": 0.7, "B": 0.8, "C": 0.1})


def test_effects_are_rewards_of_estimator_replay() -> None:
    """Messages by event as r_msg, agents by name; n and se come along."""
    world = make_world(2, "centralized")
    found = orchtrace.counterfactual(world.trace, world.replay, replays=10)
    rewards = found.rewards()
    assert all(reward.is_sound for reward in rewards)
    assert {reward.target for reward in rewards} == {letter.event for letter in world.letters}
    assert {(r.component, r.family, r.unit, r.estimator) for r in rewards} == {
        ("r_msg", "R7", "message", "replay")
    }
    agents = orchtrace.counterfactual(world.trace, world.replay, "agent", replays=10).rewards()
    assert {(r.component, r.family, r.unit) for r in agents} == {
        ("counterfactual_leave_one_out", "R2", "agent")
    }


def test_roles_are_players_too() -> None:
    """All agents of a role are taken out together."""
    world = next(
        w
        for w in (make_world(seed, "hierarchical") for seed in range(20))
        if w.trace.events[3].get("role")
    )
    found = orchtrace.counterfactual(world.trace, world.replay, "role", replays=10)
    assert {effect.player for effect in found.effects} == {
        Part("role", "lead"),
        Part("role", "worker"),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "guess"}, "method must be one of leave_one_out"),
        ({"baseline": "none"}, "baseline must be one of"),
        ({"order": "some"}, "order must be one of"),
        ({"replays": 0}, "replays must be at least 1"),
        ({"replays": 2.5}, "replays must be at least 1, a whole number, got 2.5"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"timeout_s": -1}, "timeout_s must be a finite number, at least 0"),
        ({"width": math.nan}, "width must be a finite number, at least 0"),
        ({"truncation": -0.1}, "truncation must be a finite number, at least 0"),
        ({"budget_s": -30}, "budget_s must be a finite number, at least 0"),
        ({"latency_weight": math.inf}, "latency_weight must be a finite number"),
        ({"players": "tools"}, "players must be 'message'"),
        ({"players": ["A"]}, "players must be Slot"),
        ({"players": 3}, "players must be 'message', 'agent', 'role' or a list of players, got 3"),
        ({"width": "x"}, "width must be a finite number, at least 0, got 'x'"),
        ({"latency_weight": "x"}, "latency_weight must be a finite number, at least 0, got 'x'"),
        ({"alternatives": 3, "method": "edits"}, "alternatives must be a mapping of players to"),
        ({"recording": 3}, r"recording must be what record\(\) gave, got 3"),
        ({"progress": 3}, "progress must be a function, or True for a bar, got 3"),
        ({"replay": lambda change: 1.0}, r"got function, which takes \(change\)"),
        ({"baseline": "recorded"}, "needs a trace with an outcome"),
        ({"method": "edits"}, "needs alternatives"),
        ({"trace": 3}, "trace must be the Trace of the run"),
        ({"replay": 3}, "replay must be a function"),
        ({"score": float, "replay": object()}, "replay must be a function"),
        (
            {"method": "shapley", "players": [Part("agent", str(n)) for n in range(13)]},
            "at most 12 players, got 13",
        ),
    ],
)
def test_wrong_arguments_are_refused(trace, team, sheet_game, arguments, message) -> None:
    """Loudly, before anything is run."""
    given = {"trace": trace, "replay": sheet_game, "players": team, **arguments}
    with pytest.raises(ConfigError, match=message):
        orchtrace.counterfactual(**given)


def test_blocked_replays_are_counted_by_what_they_are(trace, team) -> None:
    """A replay that would act on the world has no value, and says that it was blocked."""

    def again(change: Change, seed: int) -> float:
        msg = "no checkpoint"
        raise ReplayBlockedError(msg)

    found = orchtrace.counterfactual(trace, again, team[:1], replays=4)
    assert found.lost == {"blocked": 4}
    assert found[team[0]].value is None
