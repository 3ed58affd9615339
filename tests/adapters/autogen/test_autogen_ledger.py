"""Magentic-One decides by its ledger: its answers are on the decision, its reasons are not."""

import asyncio
import json

import pytest
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import MagenticOneGroupChat


def _ledger(
    speaker: str = "b", *, is_done: bool = False, is_looping: bool = False, moves: bool = True
) -> str:
    answers = {
        "is_request_satisfied": is_done,
        "is_in_loop": is_looping,
        "is_progress_being_made": moves,
        "next_speaker": speaker,
        "instruction_or_question": "secret instruction",
    }
    return json.dumps({key: {"answer": v, "reason": "secret"} for key, v in answers.items()})


def _decisions(trace) -> list[tuple[str, dict[str, int], int | None]]:
    return [
        (e["chosen"], e["features"], e.get("tokens")) for e in trace.events if e.verb == "decide"
    ]


def _features(*, is_done: int = 0, is_looping: int = 0, moves: int = 1) -> dict[str, int]:
    return {
        "is_request_satisfied": is_done,
        "is_in_loop": is_looping,
        "is_progress_being_made": moves,
    }


def _team(script, plain, *answers: str, **kwargs) -> MagenticOneGroupChat:
    agents = [plain("a"), plain("b")]
    return MagenticOneGroupChat(agents, model_client=script.client(*answers), **kwargs)


def test_ledger_is_the_decision_that_the_speaker_and_the_stop_follow_from(
    traced, script, plain, read
) -> None:
    """Each ledger's turn is its decision's; the instruction and the end follow from it."""
    team = _team(script, plain, "facts", "plan", _ledger("b"), _ledger(is_done=True), "answer")
    asyncio.run(team.run(task="go"))
    trace = traced.trace
    assert read.outline(trace) == [
        "0 user begin MagenticOneGroupChat",
        "1 MagenticOneGroupChat message broadcast <- causal 0",
        "2 MagenticOneGroupChat decide b <- causal 0",
        "3 MagenticOneGroupChat message broadcast <- causal 2",
        "4 MagenticOneGroupChat spawn b <- message 1, message 3, spawn 2",
        "5 b message broadcast <- causal 4",
        "6 b return MagenticOneGroupChat <- causal 5",
        "7 MagenticOneGroupChat decide final_answer <- causal 6",
        "8 MagenticOneGroupChat message broadcast <- causal 7",
        "9 MagenticOneGroupChat stop <- causal 7",
    ]
    assert _decisions(trace) == [
        ("b", _features(), 10),
        ("final_answer", _features(is_done=1), 10),
    ]
    assert [e.get("candidates") for e in trace.events if e.verb == "decide"] == [["a", "b"], None]
    assert [e.get("tokens") for e in trace.events if e.verb == "message"] == [20, None, None, 10]
    assert trace.costs["tokens"] == 50
    assert (trace.stop["stop_reason"], trace.stop["stop_detail"]) == (
        "information_complete",
        "MagenticOneOrchestrator",
    )
    assert "secret" not in trace.to_json()


def test_stalls_send_the_orchestrator_back_to_its_plan(traced, script, plain) -> None:
    """A ledger without progress decides to plan anew; the new plan has turns of its own."""
    team = _team(
        script, plain,
        "facts", "plan", _ledger("a", moves=False), _ledger("b", is_looping=True),
        "new facts", "new plan", _ledger(is_done=True), "answer", max_stalls=2,
    )  # fmt: skip
    asyncio.run(team.run(task="go"))
    assert _decisions(traced.trace) == [
        ("a", _features(moves=0), 10),
        ("replan", _features(is_looping=1), 10),
        ("final_answer", _features(is_done=1), 10),
    ]
    assert traced.trace.costs["tokens"] == 80


def test_limit_of_rounds_is_a_limit_on_steps(traced, script, plain) -> None:
    """At the limit the orchestrator answers without a ledger, and decides nothing."""
    team = _team(script, plain, "facts", "plan", _ledger("a"), _ledger("b"), "sorry", max_turns=1)
    asyncio.run(team.run(task="go"))
    assert [chosen for chosen, _, _ in _decisions(traced.trace)] == ["a", "b"]
    assert (traced.trace.stop["stop_reason"], traced.trace.stop["stop_detail"]) == (
        "max_steps",
        "max_rounds",
    )


def test_ledger_that_is_no_json_is_asked_for_again(traced, script, plain) -> None:
    """The decision that comes of it in the end has the turns of all tries."""
    team = _team(
        script, plain, "facts", "plan", "no ledger", _ledger("a"), _ledger(is_done=True), "answer"
    )
    asyncio.run(team.run(task="go"))
    assert _decisions(traced.trace)[0] == ("a", _features(), 20)


def test_ledger_that_never_comes_is_an_error(traced, script, plain, caplog) -> None:
    """After ten tries AutoGen gives up; so does the run."""
    caplog.set_level("CRITICAL", logger="autogen_core")
    team = _team(script, plain, "facts", "plan", *["no ledger"] * 10)
    with pytest.raises(ValueError, match="Failed to parse ledger"):
        asyncio.run(team.run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("error", "ValueError")


def test_condition_ends_it_like_any_team(traced, script, plain) -> None:
    """A termination condition is named and typed as elsewhere."""
    team = _team(
        script, plain, "facts", "plan", _ledger("a"),
        termination_condition=TextMentionTermination("a 1"),
    )  # fmt: skip
    asyncio.run(team.run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == (
        "information_complete",
        "TextMentionTermination",
    )


def test_only_participant_is_chosen_whatever_the_ledger_says(traced, script, plain) -> None:
    """AutoGen puts the only name there is into the ledger."""
    client = script.client("facts", "plan", _ledger("nobody"), _ledger(is_done=True), "answer")
    team = MagenticOneGroupChat([plain("only")], model_client=client)
    asyncio.run(team.run(task="go"))
    assert [chosen for chosen, _, _ in _decisions(traced.trace)] == ["only", "final_answer"]
