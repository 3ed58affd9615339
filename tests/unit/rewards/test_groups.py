"""Group statistics: the sheet's numbers, exactness, and that no raw reward leaks."""

from __future__ import annotations

import json
import math
import statistics

import pytest

from orchtrace_otel.model import Event, Trace, Turn
from orchtrace_otel.rewards.groups import Group, Groups


def group(*values: float) -> Group:
    made = Group()
    for value in values:
        made.add(value)
    return made


def test_grpo_and_rloo_have_the_numbers_of_the_sheet():
    """Rewards 1, 0, 0, 1 give 0.8660 with the sample's sigma, and 0.6667 leaving one out."""
    four = group(1, 0, 0, 1)
    assert [round(four.grpo(value), 4) for value in (1, 0)] == [0.866, -0.866]
    assert [round(four.rloo(value), 4) for value in (1, 0)] == [0.6667, -0.6667]


def test_turns_of_an_agent_have_the_numbers_of_the_sheet():
    """Dr. MAS's worker: six turns, mean .6667, sigma .5164, advantages .6455 and -1.2910."""
    worker = group(1, 1, 1, 1, 0, 0)
    assert (round(worker.mean, 4), round(worker.sigma, 4)) == (0.6667, 0.5164)
    assert (round(worker.grpo(1), 4), round(worker.grpo(0), 4)) == (0.6455, -1.291)


@pytest.mark.parametrize("values", [(), (7.0,), (7.0, 7.0, 7.0), (0.1,) * 10])
def test_a_group_of_one_or_of_equals_says_nothing(values):
    """The advantage is 0, and not the raw reward over epsilon."""
    few = group(*values)
    assert few.sigma == 0.0
    assert few.grpo(7.0) == 0.0
    assert (few.rloo(7.0) == 0.0) or len(values) > 1
    assert group(7.0, 7.0).rloo(7.0) == 0.0


def test_numbers_far_from_zero_lose_nothing():
    """A spread of 1 around 1e15 is a spread of 1; sums of squares in floats would give noise."""
    far = group(1e15, 1e15 + 1, 1e15 + 2)
    assert (far.mean, far.sigma) == (1e15 + 1, 1.0)
    assert far.rloo(1e15 + 2) == 1.5
    assert group(-1e300, 1e300).sigma == pytest.approx(math.sqrt(2) * 1e300, rel=1e-15)
    assert group(0.0, 1e-300).sigma == pytest.approx(1e-300 / math.sqrt(2), rel=1e-15)


def test_it_agrees_with_the_standard_library():
    """Mean and sample deviation are those of `statistics`."""
    values = [0.1 * n * (-1) ** n for n in range(50)]
    many = group(*values)
    assert many.mean == pytest.approx(statistics.mean(values), rel=1e-15)
    assert many.sigma == pytest.approx(statistics.stdev(values), rel=1e-15)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused(value):
    """It would spoil all others of its group."""
    with pytest.raises(ValueError, match="a group must hold finite numbers"):
        group(value)


def test_what_was_added_can_be_taken_out_again():
    """A late verdict replaces an early one, without a trace of it."""
    late = group(0.1, 0.2, 0.3)
    late.discard(0.2)
    late.add(0.7)
    assert late == group(0.1, 0.3, 0.7)
    with pytest.raises(ValueError, match="has 1, came 2 to take"):
        group(1.0).discard(1.0, 2)


def run(number: int, reward: float | None, turns: dict[str, int]) -> Trace:
    events = tuple(
        Event(name, 0, "spawn", "lead", {"verb": "spawn", "to": name, "role": role})
        for name, role in (("ann", "worker"), ("bob", "worker"))
    )
    acted = tuple(Event(f"{name}.m", 1, "message", name) for name in ("ann", "bob"))
    records = [
        Turn(id=f"{name}{n}", agent=name) for name, count in turns.items() for n in range(count)
    ]
    stop = Event(
        "stop",
        2,
        "orchestrator_decision",
        "lead",
        {"verb": "stop", "turn_records": [one.to_dict() for one in records]},
    )
    rewards = {} if reward is None else {"task": reward}
    return Trace(f"run{number}", "q", (*events, *acted, stop), (), rewards)


def test_a_run_counts_for_its_task_its_agents_and_its_roles():
    """Once for the task, and with each turn for the agent and the role; without a turn once."""
    groups = Groups()
    assert groups.observe(run(1, 1.0, {"ann": 4, "lead": 1}))
    assert groups.observe(run(2, 0.0, {"ann": 2, "bob": 3, "ghost": 9}))
    assert not groups.observe(run(3, None, {"ann": 1}))
    assert {key: groups[key].n for key in groups} == {
        ("agent", "q", "ann"): 6,
        ("agent", "q", "bob"): 4,
        ("agent", "q", "lead"): 2,
        ("role", "q", "worker"): 10,
        ("task", "q"): 2,
    }
    found = groups.advantages(run(1, 1.0, {"ann": 4, "lead": 1}))
    assert round(found["agent", "q", "ann"]["grpo"], 4) == 0.6455
    assert round(found["task", "q"]["grpo"], 4) == 0.7071
    assert found["task", "q"]["rloo"] == 1.0
    assert groups.advantages(run(3, None, {})) == {}


def test_a_run_can_be_forgotten():
    """What only it held is gone; what others hold too is as if it had never come."""
    groups, other = Groups(), Groups()
    first, second = run(1, 0.1, {"ann": 3}), run(2, 0.2, {"bob": 1})
    groups.observe(first)
    groups.observe(second)
    other.observe(second)
    assert groups.forget(first)
    assert groups.to_json() == other.to_json()
    assert groups.forget(second)
    assert len(groups) == 0


def test_a_run_that_was_not_observed_is_not_forgotten_in_part():
    """What it shares with those that were stays as it is, down to the last group."""
    groups = Groups()
    groups.observe(run(1, 0.1, {"ann": 1}))
    held = groups.to_json()
    with pytest.raises(ValueError, match="taken out of it"):
        groups.forget(run(2, 0.1, {"ann": 3}))
    assert groups.to_json() == held


def test_what_several_processes_wrote_is_read_at_once():
    """One list behind the other is what merging them gives."""
    one, other = Groups(), Groups()
    one.observe(run(1, 0.1, {"ann": 3}))
    other.observe(run(2, 0.2, {"ann": 1}))
    both = Groups.from_json([*one.to_json(), *other.to_json()])
    one.merge(other)
    assert both.to_json() == one.to_json()


def test_processes_hand_their_groups_on_as_json():
    """Nothing is lost on the way: the merged groups are those of one process."""
    alone, one, two = Groups(), Groups(), Groups()
    for number, reward in enumerate((0.1, 1 / 3, 1e-300, 1e300)):
        alone.observe(run(number, reward, {"ann": number}))
        (one, two)[number % 2].observe(run(number, reward, {"ann": number}))
    sent = json.loads(json.dumps(two.to_json()))
    one.merge(Groups.from_json(sent))
    assert one.to_json() == alone.to_json()
