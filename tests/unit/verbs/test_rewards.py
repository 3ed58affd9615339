"""A reward reaches its run, inside, outside and after it, or a warning says that it is lost."""

from typing import Any

import pytest
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Reward
from tests.given import given_records, given_rewards
from tests.trees import recording
from tests.unit.verbs.crew import HALF

SEVERAL = {
    "token": "event_id",
    "turn": "event_id",
    "message": "event_id",
    "tool_call": "event_id",
    "agent": "target",
    "role": "target",
}
"""Units of which a run has several, and what says which is rated."""


def test_a_reward_of_each_unit_is_taken_where_it_says_of_what() -> None:
    """Of the team and its orchestrator there is one, which needs no name."""

    @orchtrace.team
    def team() -> None:
        for unit, by in SEVERAL.items():
            orchtrace.record_reward("x", 1.0, unit=unit, **{by: f"the {unit}"})
        orchtrace.record_reward("x", 1.0, unit="turn", target="a turn")
        orchtrace.record_reward("x", 1.0, unit="orchestrator")
        orchtrace.record_reward("x", 1.0, unit="team")

    with recording() as captured:
        team()
    assert [(one.unit, one.target) for one in given_records(captured.trace)] == [
        *((unit, f"the {unit}") for unit in SEVERAL),
        ("turn", "a turn"),
        ("orchestrator", None),
        ("team", None),
    ]


def test_inside_an_agent_its_reward_is_its_own_unless_it_names_another() -> None:
    """The same goes for its role, where it has one."""

    @orchtrace.agent(name="critic", role="reviewer")
    def critic() -> None:
        orchtrace.record_reward("care", 1.0, unit="agent")
        orchtrace.record_reward("care", 0.5, unit="agent", target="writer")
        orchtrace.record_reward("tone", 0.25, unit="role")

    with recording() as captured:
        critic()
    assert [(one.component, one.unit, one.target) for one in given_records(captured.trace)] == [
        ("care", "agent", "critic"),
        ("care", "agent", "writer"),
        ("tone", "role", "reviewer"),
    ]


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
        ({"value": None}, "a value that is a finite number, got None"),
        ({"value": 1, "family": "R9"}, "family to be one of R1, R2, R3"),
        ({"value": 1, "unit": "planet"}, "got 'planet'; the reward is lost"),
        ({"value": 1, "estimator": "guess"}, "got 'guess'; the reward is lost"),
        *(
            (
                {"value": 1, "unit": unit},
                f"{by} to say which {unit} is rated, or unit='team', got None; the reward is lost",
            )
            for unit, by in SEVERAL.items()
        ),
        ({"value": 1, "unit": "turn", "event_id": ""}, "needs event_id to say which turn"),
        ({"value": 1, "target": ""}, "needs target to say which agent is rated"),
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
