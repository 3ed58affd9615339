"""A decision says what was chosen, among what and by what chance, and nothing of the host."""

import pytest

import orchtrace_otel as orchtrace
from tests.trees import recording, tree
from tests.unit.verbs.crew import critic


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


def test_a_wrong_decision_is_logged_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    """The log says what must hold and what came; what was given is not told."""

    @orchtrace.team
    def team() -> None:
        orchtrace.decide("route", chosen=None)  # type: ignore[arg-type]
        orchtrace.decide("route", chosen="a", candidates=5)  # type: ignore[arg-type]

    with recording() as captured:
        team()
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]
    assert "chosen to be a text or several, got None; the decision is lost" in caplog.text
    assert "candidates to be a text or several, got 5; the decision is lost" in caplog.text


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
