"""The formulas of R1 to R8 that take labels: the sheet's worked numbers, edges, properties."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.families.hybrid import hybrid, sharp, weighted, with_edits
from orchtrace_otel.rewards.families.individual import advantages, difference, normalised
from orchtrace_otel.rewards.families.orchestration.aggregation import (
    Weights,
    claims,
    gain,
    merge_reward,
)
from orchtrace_otel.rewards.families.orchestration.baseline import (
    beside_one_agent,
    message_density,
    output_redundancy,
)
from orchtrace_otel.rewards.families.orchestration.communication import (
    communication_reward,
    message_value,
    reappearing,
)
from orchtrace_otel.rewards.families.orchestration.managing import (
    ManagerWeights,
    length_penalty,
    manage,
    sample_weights,
    turn_weights,
    wide_reward,
)
from orchtrace_otel.rewards.families.orchestration.parallel import (
    Schedule,
    brent_bounds,
    finish_reward,
    parallel_reward,
    parl,
)
from orchtrace_otel.rewards.families.orchestration.puppeteer import Puppeteer
from orchtrace_otel.rewards.families.orchestration.split import overlap_of_briefs, split
from orchtrace_otel.rewards.families.orchestration.steps import critical_steps_of
from orchtrace_otel.rewards.families.outcome import Price, net_of_cost, net_outcome
from orchtrace_otel.rewards.families.process import (
    ShapingCancelsWarning,
    progress,
    progress_rewards,
    shaped,
    shaping,
    step_advantages,
)
from orchtrace_otel.rewards.families.role import (
    aligned,
    contrasts,
    inherited,
    planner_reward,
    sub_agent_reward,
    tree_values,
)
from orchtrace_otel.rewards.families.tools import ToolUse, ToolWeights, tool_reward, tool_rewards
from orchtrace_otel.rewards.families.verifier import (
    agreement,
    calibration,
    hits,
    not_independent,
    preference_loss,
    preference_pairs,
    verdict_changes,
    verdict_rewards,
    zero_sum,
)
from orchtrace_otel.rewards.groups import Groups

PRICES = {"tokens": Price(0.1, 10_000), "makespan": Price(0.1, 60)}
PUPPETEER = Puppeteer(longest=4)
MERGED = ({1, 3, 4, 9}, [{1, 2, 3}, {3, 4}])
USE = ToolUse(0, valid=True, succeeded=True, used=False, repeated=True, seconds=None)
WORKED = [
    (net_of_cost(1, {"tokens": 1500, "makespan": 9}, PRICES), 0.97),
    (parallel_reward(3, k_max=5), 0.5),
    (finish_reward(2, 3), 0.6667),
    (parl(1, 0.5, 2 / 3, Schedule(0.1, 1000).weight(0)), 1.116667),
    (parl(1, 0.5, 2 / 3, Schedule(0.1, 1000).weight(500)), 1.058333),
    (critical_steps_of([(1, [2, 3, 1]), (1, [])]), 5),
    (brent_bounds(15, 9, 3)[0], 9),
    (brent_bounds(15, 9, 3)[1], 11),
    (PUPPETEER.cost_factor(0), 0.026303),
    (PUPPETEER.cost_factor(1), 0.048543),
    (PUPPETEER.cost_factor(2), 0.067807),
    (PUPPETEER.step_reward(0, 20_000), -0.005261),
    (PUPPETEER.step_reward(1, 50_000), -0.024271),
    (PUPPETEER.terminal_reward(1, 2), 1.033904),
    (PUPPETEER.returns(1, [20_000, 50_000])[0], 0.984040),
    (split({1, 2, 3, 4}, [{1, 2}, {2, 3}, {4}]).coverage, 1),
    (split({1, 2, 3, 4}, [{1, 2}, {2, 3}, {4}]).overlap, 0.2),
    (split({1, 2, 3, 4}, [{1, 2}, {2, 3}, {4}], 1.0).reward, 0.8),
    (split({1, 2, 3, 4}, [{1, 2}, {2, 3}]).coverage, 0.75),
    (gain(0.9, [0.6, 0.7]).best, 0.2),
    (gain(0.9, [0.6, 0.7]).mean, 0.25),
    (claims(*MERGED).retention, 0.75),
    (claims(*MERGED).unsupported, 0.25),
    (claims(*MERGED).redundancy, 0.25),
    (message_value(1, 3 / 5, 1.5, 30, kappa=0.5), 0.375),
    (message_value(1, 1, 1.5, 30, kappa=0.5), -0.025),
    (beside_one_agent(30, 0.8, 20, 0.6).overhead, 0.5),
    (beside_one_agent(30, 0.8, 20, 0.6).efficiency, 0.5333),
    (beside_one_agent(30, 0.8, 20, 0.6).amplification, 0.5),
    (tool_reward(USE, ToolWeights(0.2, 0.2, 0.6, 0.5)), -0.1),
    (calibration(0.8, 1), 0.96),
    (preference_loss(1, 0), 0.3133),
]
shares = st.floats(0, 1)
small = st.floats(-1e6, 1e6)


def test_worked_numbers_hold_to_their_printed_digits():
    """Every number that the formula sheet prints is what the formula gives."""
    assert [round(came, _digits(printed)) for came, printed in WORKED] == [
        printed for _, printed in WORKED
    ]


def _digits(printed: float) -> int:
    return len(str(printed).partition(".")[2])


def test_malt_values_are_means_over_children():
    """Leaves {1, 1} and {1, 0}: verifiers 1 and .5, generator .75; one contrast for training."""
    grades = {("g", "v1", "1"): 1, ("g", "v1", "2"): 1, ("g", "v2", "1"): 1, ("g", "v2", "2"): 0}
    values = tree_values(grades)
    assert (values["g", "v1"], values["g", "v2"], values["g",]) == (1, 0.5, 0.75)
    assert [(pair.chosen, pair.rejected) for pair in contrasts(values)] == [
        (("g", "v1"), ("g", "v2")),
        (("g", "v2", "1"), ("g", "v2", "2")),
    ]
    assert contrasts({("g",): 1.0}) == []


def test_a_tree_counts_children_once_however_many_leaves_they_have():
    """A mean over children is not the mean over leaves."""
    grades = {("a", str(n)): 0 for n in range(9)} | {("b", "0"): 1}
    deeper = {("root", *path): grade for path, grade in grades.items()}
    assert tree_values(deeper)["root",] == 0.5


@pytest.mark.parametrize(
    ("leaves", "message"),
    [({(): 1.0}, "at least one sample"), ({("a",): 1.0, ("a", "b"): 0.0}, "none below it")],
)
def test_a_tree_that_is_none_is_refused(leaves, message):
    """A grade on the way to another one has no meaning."""
    with pytest.raises(ValueError, match=message):
        tree_values(leaves)


def test_agents_are_normalised_in_their_own_group():
    """Dr. MAS's worker turns 1,1,1,1,0,0: .6455 and -1.2910; a group of one gets 0, not its 5."""
    rewards = {(str(n), "worker"): float(n < 4) for n in range(6)} | {("0", "lead"): 5.0}
    found = normalised(rewards)
    assert round(found["0", "worker"], 4) == 0.6455
    assert round(found["5", "worker"], 4) == -1.2910
    assert found["0", "lead"] == 0
    assert math.fsum(found.values()) == pytest.approx(0, abs=1e-12)


def test_a_run_has_advantages_among_the_runs_of_its_task():
    """R = 1,0,0,1: GRPO +-.8660 with the sample's sigma, RLOO +-.6667; sound, with their n."""
    runs = [
        Trace(f"r{n}", "q", (), rewards={"task": reward}) for n, reward in enumerate((1, 0, 0, 1))
    ]
    groups = Groups()
    for run in runs:
        groups.observe(run)
    found = [advantages(groups, run) for run in runs]
    assert [[round(one.value, 4) for one in rewards] for rewards in found] == [
        [0.866, 0.6667],
        [-0.866, -0.6667],
        [-0.866, -0.6667],
        [0.866, 0.6667],
    ]
    assert all(one.is_sound and one.n == 4 and one.family == "R1" for run in found for one in run)
    assert advantages(groups, Trace("r9", "q", ())) == []


def test_shaping_telescopes_and_warns_where_it_cancels():
    """The sheet's potentials give .2 .3 -.1 -.4, sum 0; over whole runs it says that it cancels."""
    potentials = [0, 0.2, 0.5, 0.4, 0]
    assert [round(step, 4) for step in shaping(potentials)] == [0.2, 0.3, -0.1, -0.4]
    assert math.fsum(shaping(potentials)) == pytest.approx(0, abs=1e-12)
    assert shaped([1, 1, 1, 1], potentials, compared="step")[0] == pytest.approx(1.2)
    with pytest.warns(ShapingCancelsWarning, match="cancels"):
        shaped([0, 0, 0, 1], potentials, compared="trajectory")
    with pytest.raises(ValueError, match="one more than the 1 steps"):
        shaped([1], [0], compared="step")
    with pytest.raises(ValueError, match="between 0 and 1"):
        shaping([0, 1], gamma=1.5)


@given(st.lists(small, min_size=1))
def test_shaping_sums_to_minus_the_first_potential(potentials):
    """Whatever happened in between, so that the best policy stays what it was."""
    first = potentials[0] if len(potentials) > 1 else 0.0
    assert math.fsum(shaping(potentials)) == pytest.approx(-first, abs=1e-3)


def test_steps_are_compared_where_enough_runs_reached_them():
    """Fewer than three runs at a step say nothing; runs that are alike have 0."""
    found = step_advantages([[1.0, 2.0], [1.0, 0.0], [1.0]])
    assert found == [[0.0, None], [0.0, None], [0.0]]
    assert step_advantages([]) == []


def test_progress_counts_what_was_won_and_broken():
    """One of four broken, two won: a quarter; without requirements it is unknown."""
    assert progress({"a"}, {"b", "c", "odd"}, {"a", "b", "c", "d"}) == 0.25
    assert progress({"a"}, set(), {"a"}) == -1
    assert progress(set(), {"a"}, ()) is None


def test_progress_is_rewarded_where_a_checker_looked(fork3):
    """The function for configure gives each checked event its own progress."""
    held = {"A.close": {"a"}, "B.close": {"a", "b"}, "e11": {"b"}}
    rewards = progress_rewards(lambda trace: held, lambda trace: {"a", "b"})
    found = [r for r in score(fork3, [("progress", rewards)]).reward_records if r.family == "R4"]
    assert [(r.target, r.value, r.unit) for r in found] == [
        ("A.close", 0.5, "turn"),
        ("B.close", 0.5, "turn"),
        ("e11", -0.5, "turn"),
    ]


def test_outcomes_net_of_cost_keep_their_components(fork3):
    """FORK3's .97 with each cost beside it; without an outcome there is no net, only costs."""
    function = net_outcome(PRICES)
    won = score(replace(fork3, rewards={"task": 1.0}), [("net", function)]).rewards
    assert round(won["outcome_net"], 4) == 0.97
    assert (won["cost_tokens"], won["cost_makespan"]) == (pytest.approx(-0.015),) * 2
    unknown = score(replace(fork3, rewards={}), [("net", function)]).rewards
    assert "outcome_net" not in unknown
    assert unknown["cost_tokens"] == pytest.approx(-0.015)
    uncounted = replace(fork3, rewards={"task": 1.0}, metrics={"turns_without_usage": 1})
    assert {"outcome_net", "cost_tokens"}.isdisjoint(score(uncounted, [("net", function)]).rewards)
    with pytest.raises(ValueError, match="budget > 0"):
        net_outcome({"tokens": Price(0.1, 0)})
    with pytest.raises(ValueError, match="budget > 0"):
        net_outcome({"tokens": Price(math.nan, 1)})


@given(shares, st.floats(0, 1e6), st.floats(0, 1e6))
def test_outcomes_fall_with_every_cost(success, less, more):
    """More spent is never worth more, and never more than the outcome itself."""
    low, high = sorted((less, more))
    dear = net_of_cost(success, {"tokens": high, "makespan": 1}, PRICES)
    cheap = net_of_cost(success, {"tokens": low, "makespan": 1}, PRICES)
    assert dear <= cheap <= success


def test_parl_has_no_reward_for_never_spawning():
    """Without assignments the finish term has no weight; the schedule ends at 0, the default."""
    assert parl(0.5, 0.0, finish_reward(0, 0), 0.1) == 0.5
    assert Schedule(0.1, 10).weight(11) == 0
    assert Schedule().weight(0) == 0
    with pytest.raises(ValueError, match="above 1"):
        parallel_reward(3, k_max=1)


def test_a_split_without_requirements_tells_overlap_only():
    """Where nobody says what the task asks for, coverage and the reward are unknown."""
    assert split(None, [{1}, {1}]) == (None, 0.5, None, None)
    assert split({1}, []).coverage == 0
    assert split({1, 2}, [{1}, {2}], 0.5, eta=2).reward == 0.25
    assert overlap_of_briefs([]) is None
    assert overlap_of_briefs(["one", "two"], lambda a, b: 1.0) == 0.5


def test_a_merge_without_children_is_unknown_and_with_one_not_redundant():
    """No children: nothing to compare; one: nothing said twice. A debate welcomes redundancy."""
    assert gain(0.5, []) is None
    assert claims({1}, []) is None
    assert claims({1}, [{1}]).redundancy == 0
    assert claims(set(), [set()]) == (None, None, 0.0)
    assert merge_reward(None, claims(*MERGED)) is None
    assert merge_reward(gain(1, [1]), None) is None
    assert merge_reward(gain(1, [1]), None, Weights(0, 0, 0)) == 0
    only = Weights(0, 0, 1)
    assert merge_reward(gain(1, [1]), claims(*MERGED), only) == -0.25
    assert merge_reward(gain(1, [1]), claims(*MERGED), only, "debate") == 0.25


def test_messages_are_worth_what_was_used_and_new_less_their_delay():
    """Unused or known text earns nothing; each second costs."""
    assert communication_reward(0, 1, 0, 30) == 0
    assert communication_reward(1, 0.5, 3, 30, kappa=0.5) == pytest.approx(0.45)
    assert reappearing("", ["x"]) is None
    assert reappearing("abc", ["xabcx"]) == 1
    assert message_density(3, 0) is None
    assert output_redundancy(["alone"]) is None
    assert output_redundancy(["a b", "a c"]) == pytest.approx(1 / 3)
    assert beside_one_agent(1, 1, 1, 1).amplification is None
    with pytest.raises(ValueError, match="above 0"):
        beside_one_agent(1, 1, 0, 1)


def test_a_manager_is_graded_by_known_components_only():
    """What is unknown and has weight makes the sum unknown; the components stay."""
    found = manage(1, [True, False], ["a b", "a c"], None, 1000)
    assert (found.protocol, found.spent, found.reward) == (0.5, None, None)
    free = manage(1, [], ["one"], None, 1, weights=ManagerWeights(1, 0, 0, 0))
    assert (free.protocol, free.diversity, free.reward) == (None, None, 1.0)


def test_many_sub_agents_do_not_drown_the_lead():
    """Each agent weighs the same, its turns by their tokens; the weights of a run sum to 1."""
    subs = {f"sub{n}": {f"s{n}": 1000} for n in range(9)}
    weights = sample_weights({"lead": {"l1": 10, "l2": 30}, "silent": {"x": 0}} | subs)
    assert weights["l1"] + weights["l2"] == pytest.approx(0.1)
    assert weights["l2"] == pytest.approx(3 * weights["l1"])
    assert math.fsum(weights.values()) == pytest.approx(1)
    assert [length_penalty(n) for n in (0, 5000, 6500, 9999)] == [0, 0, 0.75, 1]
    assert wide_reward(1, hit_limit=True) == wide_reward(None) == 0
    assert wide_reward(0.5, well_formed=0.1, searched=0.2, penalty=0.3) == pytest.approx(0.5)


def test_turns_of_a_trace_are_weighed_where_all_are_counted(fork3):
    """A turn without usage leaves the weights of its run unknown."""

    def stopped(*turns: dict[str, object]) -> Trace:
        stop = fork3.events[-1]
        keys = {**stop.keys, "turn_records": list(turns)}
        return replace(fork3, events=(*fork3.events[:-1], replace(stop, keys=keys)))

    lead = {"id": "t1", "instance": "O#1", "output_tokens": 5}
    sub = {"id": "t2", "instance": "A#1", "output_tokens": 50}
    assert turn_weights(stopped(lead, sub)) == {"t1": 0.5, "t2": 0.5}
    assert turn_weights(stopped(lead, {"id": "t2", "instance": "A#1"})) is None
    assert turn_weights(fork3) is None


def test_verdicts_reward_what_came_between_them(fork3):
    """A verdict stands on the event, or is recorded for it; the change is the later one's."""
    held = {"A.close": 0.25, "B.close": 0.75}
    events = [
        replace(e, keys={**e.keys, "rewards": {"verdict": held[e.id]}}) if e.id in held else e
        for e in fork3.events
    ]
    recorded = Reward(id="v", component="verdict", value=1.0, unit="message", target="e11")
    stop = replace(events[-1], keys={**events[-1].keys, "reward_records": [recorded.to_dict()]})
    trace = replace(fork3, events=(*events[:-1], stop))
    found = [(reward.target, reward.value) for reward in verdict_rewards()(trace)]
    assert found == [("B.close", 0.5), ("e11", 0.25)]
    assert verdict_changes([]) == []


@given(st.dictionaries(st.text(max_size=3), shares, max_size=6))
def test_debates_sum_to_zero(scores):
    """What one wins the others lose; who debates alone wins nothing."""
    assert math.fsum(zero_sum(scores).values()) == pytest.approx(0, abs=1e-9)


@given(st.lists(shares, max_size=6), st.randoms())
def test_agreement_is_a_share_in_any_order(verdicts, rng):
    """From 0 to 1, unknown with fewer than two, the same however verifiers are listed."""
    value = agreement(verdicts)
    rng.shuffle(verdicts)
    assert agreement(verdicts) == value
    assert (value is None) == (len(verdicts) < 2)
    assert value is None or 0 <= value <= 1


def test_verifiers_that_share_a_model_with_solvers_are_named(fork3):
    """Such a verifier may like what it would have written; unknown models tell nothing."""
    turns = [
        {"id": "1", "agent": "solver", "model": "m1"},
        {"id": "2", "agent": "same", "model": "m1"},
        {"id": "3", "agent": "other", "model": "m2"},
        {"id": "4", "agent": "silent"},
    ]
    stop = fork3.events[-1]
    trace = replace(fork3, events=(replace(stop, keys={**stop.keys, "turn_records": turns}),))
    assert not_independent(trace, ["same", "other", "silent"]) == {"same"}
    assert hits({"a": 0.9, "b": 0.1}, success=1) == {"a": 1, "b": 0}


@given(small, small)
def test_a_preference_loss_is_finite_and_falls_with_the_margin(winner, loser):
    """No margin overflows, and a better winner never costs more."""
    loss = preference_loss(winner, loser)
    assert 0 <= loss < math.inf
    assert preference_loss(winner + 1, loser) <= loss
    assert preference_loss(loser, loser) == pytest.approx(math.log(2))


def test_pairs_are_of_one_task_and_no_ties():
    """Whoever won stands first, whatever the order of runs."""
    outcomes = {"b": ("q", 0.0), "a": ("q", 1.0), "c": ("p", 0.5), "d": ("q", 1.0)}
    assert preference_pairs(outcomes) == [("a", "b"), ("d", "b")]
    assert preference_pairs(dict(reversed(outcomes.items()))) == preference_pairs(outcomes)


def test_roles_are_rewarded_as_their_sources_say():
    """MATPO's planner and its heirs; M-GRPO's sub-agents, and their alignment with its count."""
    assert planner_reward(1, 1) == 1
    assert inherited({"p": 0.5}, {"w": "p", "lost": "q"}) == {"w": 0.5}
    assert sub_agent_reward(0, main_is_right=True) == 0
    assert sub_agent_reward(0.5, main_is_right=False) == 0.05
    assert sub_agent_reward(0.5, main_is_right=True) == 1
    assert aligned(["a", "b", "c"], 2) == (("a", "b"), 3)
    assert aligned([], 2) == ((), 0)
    with pytest.raises(ValueError, match="at least 0"):
        aligned(["a"], -1)


def test_a_component_may_be_called_like_the_place_of_a_function(fork3):
    """Each part counts with its own weight and value."""
    mixed = hybrid({"1": 1.0, (lambda trace: 0.5): 0.5})
    assert mixed(replace(fork3, rewards={"1": 2.0})) == 2.25


def test_a_hybrid_is_absent_where_a_weighted_part_is(fork3):
    """Its parts are rewards of the trace, built in or recorded, or functions of it."""
    mixed = hybrid({"outcome": 1.0, "r_finish": 0.3, (lambda trace: 0.5): 0.5}, name="mixed")
    scored = score(fork3, [("mixed", mixed)])
    assert scored.rewards["mixed"] == pytest.approx(1 + 0.2 + 0.25)
    assert {"outcome", "r_finish"} <= scored.rewards.keys()
    (record,) = [reward for reward in scored.reward_records if reward.component == "mixed"]
    assert (record.family, record.unit) == ("R8", "team")
    assert "odd" not in score(fork3, [("odd", hybrid({"nobody": 1.0}))]).rewards
    assert weighted({}, {"free": 0.0}) == 0
    assert sharp(1, None) is None
    assert sharp(1, 0.5, None) == 1.5
    assert difference(1, 0.25) == 0.75
    assert with_edits(0.5, ["a", "b"], {"a": 0.25}) == {"a": 0.75, "b": 0.5}
    with pytest.raises(ConfigError, match="at least one weight"):
        hybrid({})


def test_an_event_that_is_rewarded_twice_keeps_both():
    """Built-in rewards of events stand beside those that were there."""
    call = Event("c", 0, "tool_call", "a", {"status": "ok", "rewards": {"mine": 1.0}})
    (scored,) = score(Trace("run", "task", (call,))).events
    assert scored["rewards"] == {"mine": 1.0, "tool_succeeded": 1.0, "tool_used": 0.0}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: communication_reward(1, 0.5, 1.5, 0),
        lambda: message_value(1, 0.6, 1.5, -1),
        lambda: manage(1, [True], ["a", "b"], 50, 0),
        lambda: tool_rewards(ToolWeights(latency=0.1, budget_s=0)),
        lambda: Schedule(0.1, 0).weight(5),
        lambda: Schedule(0.1, 10).weight(-1),
        lambda: length_penalty(6000, 5000, 5000),
    ],
    ids=["message", "R_msg", "manager", "tools", "no steps", "no step", "ramp"],
)
def test_what_nothing_can_be_a_share_of_is_refused_in_words(ask):
    """Budgets, schedules and ramps without an extent say what must hold."""
    with pytest.raises(ValueError, match=r"above 0|steps >= 1|long > short"):
        ask()
