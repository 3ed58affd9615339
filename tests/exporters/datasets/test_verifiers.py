"""`verifiers`: episodes of traces, message graphs, rewards and links.

Shapes are those of verifiers 0.4.0, `verifiers/v1/episode.py`, `trace.py` and `graph.py`;
tests/trainers/test_verifiers.py asks verifiers itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.schema import dump, load
from tests.exporting import exported, lineage
from tests.nested import nested
from tests.recorded import LOOK, Call, Recorder, siblings, text, tokens

Json = dict[str, Any]
ASK = [text("user", "How high is the tide?")]


def path(trace: Json, node: int) -> list[Json]:
    """Return the nodes from a root to a node."""
    found: list[Json] = []
    at: int | None = node
    while at is not None:
        found.append(trace["nodes"][at])
        at = trace["nodes"][at]["parent"]
    return found[::-1]


def read(trace: Json, node: int) -> tuple[list[int], list[bool], list[float]]:
    """Return ids and mask along a path, and the log probabilities of what was sampled."""
    nodes = path(trace, node)
    return (
        [one for part in nodes for one in part["token_ids"]],
        [one for part in nodes for one in part["mask"]],
        [one for part in nodes for one in part["logprobs"]],
    )


def test_an_agents_conversation_is_a_path_of_exactly_the_tokens_it_had(tmp_path: Path) -> None:
    """Each message once; what was read between two answers is masked."""
    store, trace = nested(tmp_path)
    _, (episode,) = exported(tmp_path, store, [trace], format="verifiers")
    lead, scout = episode["traces"]
    assert (lead["agent"]["name"], scout["agent"]["name"]) == ("lead", "scout")
    assert [node["parent"] for node in lead["nodes"]] == [None, 0, 1, 2]
    assert [node["sampled"] for node in lead["nodes"]] == [False, True, False, True]
    ids, mask, logprobs = read(lead, 3)
    assert ids == [1, 2, 3, 4, 5, 6, 7, 12, 13]
    assert mask == [False, False, False, True, True, False, False, True, True]
    assert logprobs == [-0.04, -0.05, -0.12, -0.13]
    assert [call["node"] for call in lead["calls"]] == [1, 3]
    assert lead["calls"][0]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2}
    assert episode["task"]["data"]["prompt"] == "How high is the tide?"
    assert episode["group"] == {"id": "tide"}


def test_callers_and_returns_are_semantic_parents_in_one_trace(tmp_path: Path) -> None:
    """The lead called both scouts, and its second answer had both reports."""
    store, trace = nested(tmp_path)
    choices = {"format": "verifiers", "settings": {"traces": "run"}}
    _, (episode,) = exported(tmp_path, store, [trace], **choices)
    (whole,) = episode["traces"]
    said = [node["message"]["content"] for node in whole["nodes"]]
    links = {
        (said[link["node"]], link["type"], said[place])
        for place, node in enumerate(whole["nodes"])
        for link in node["semantic_parents"]
    }
    assert links == {
        ("ask two", "subagent_call", "north: high"),
        ("ask two", "subagent_call", "south: high"),
        ("north: high", "subagent_return", "high"),
        ("south: high", "subagent_return", "high"),
    }
    assert whole["info"]["orchtrace"]["agents"] == ["lead", "scout", "scout", "lead"]


def test_links_between_traces_are_told_by_trace_and_node(tmp_path: Path) -> None:
    """A semantic parent can only stand in its own trace, so `info` has those of others."""
    store, trace = nested(tmp_path)
    _, (episode,) = exported(tmp_path, store, [trace], format="verifiers")
    lead, scout = episode["traces"]
    assert lead["info"]["orchtrace"]["semantic_parents"] == [
        {"of": 3, "trace": scout["id"], "node": node, "type": "subagent_return"} for node in (1, 3)
    ]
    assert scout["info"]["orchtrace"]["semantic_parents"] == [
        {"of": node, "trace": lead["id"], "node": 1, "type": "subagent_call"} for node in (1, 3)
    ]


def test_parallel_siblings_with_one_prompt_are_a_trace_each_with_their_own_reward(
    tmp_path: Path,
) -> None:
    """Nothing is merged, though they read the same tokens."""
    recorder = Recorder(tmp_path)
    _, (episode,) = exported(tmp_path, recorder.store, [siblings(recorder)], format="verifiers")
    assert [trace["rewards"]["task"]["score"] for trace in episode["traces"]] == [0.0, 0.5, 1.0]
    assert [read(trace, 1)[0] for trace in episode["traces"]] == [
        [1, 2, 3, 10 + place, 11 + place] for place in range(3)
    ]
    assert [row["label"] for row in lineage(tmp_path)] == [1.0]


def test_calls_that_earned_different_things_are_traces_of_their_own(tmp_path: Path) -> None:
    """A trace has one reward; what went before is context in the later one."""
    recorder = Recorder(tmp_path)
    said = [text("assistant", "one two")]
    after = [*ASK, *said, text("user", "sure?")]
    calls = [
        Call("a", ASK, said, instance="a#1", tokens=tokens("one two"), reward=0.0),
        Call("a", after, [text("assistant", "yes")], instance="a#1", t=2.0, reward=1.0),
        Call("a", after, [text("assistant", "no")], instance="a#1", t=3.0),
        Call("a", after, [text("assistant", "so")], instance="a#1", t=4.0),
    ]
    run = recorder.run(1, calls, task="tide", reward=0.4)
    choices = {"format": "verifiers", "settings": {"tokens": "optional"}}
    _, (episode,) = exported(tmp_path, recorder.store, [run], **choices)
    scores = [trace["rewards"]["task"]["score"] for trace in episode["traces"]]
    assert scores == [0.0, 1.0, 0.4]
    sampled = [[node["sampled"] for node in trace["nodes"]] for trace in episode["traces"]]
    assert sampled == [[False, True], [False, False, False, True], [False] * 3 + [True, True]]


def test_a_path_forks_where_the_tokens_of_a_prompt_are_not_those_of_the_answer(
    tmp_path: Path,
) -> None:
    """A template that renders an answer anew breaks the prefix; the branch is whole anyway."""
    recorder = Recorder(tmp_path)
    said = [text("assistant", "one two")]
    later = Tokens(provenance="exact", prompt_ids=(1, 2, 3, 77, 78), ids=(9,), logprobs=(-1.0,))
    calls = [
        Call("a", ASK, said, instance="a#1", tokens=tokens("one two")),
        Call("a", [*ASK, *said], [text("assistant", "x")], instance="a#1", t=2.0, tokens=later),
    ]
    run = recorder.run(1, calls, task="tide", reward=0.4)
    _, (episode,) = exported(tmp_path, recorder.store, [run], format="verifiers")
    (trace,) = episode["traces"]
    assert read(trace, 1)[0] == [1, 2, 3, 10, 11]
    assert read(trace, 3)[0] == [1, 2, 3, 77, 78, 9]
    assert [node["sampled"] for node in trace["nodes"]] == [False, True, False, True]


def test_calls_without_exact_tokens_are_refused_unless_texts_are_enough(tmp_path: Path) -> None:
    """A made-up id is never shown; the texts alone are an episode when they are asked for."""
    recorder = Recorder(tmp_path)
    guessed = Tokens(provenance="retokenised", prompt_ids=(1,), ids=(2,))
    calls = [
        Call("a", ASK, [text("assistant", "x")], tools=[LOOK]),
        Call("b", ASK, [text("assistant", "y")], tokens=guessed),
    ]
    run = recorder.run(1, calls, task="tide", reward=1.0)
    report, _ = exported(tmp_path, recorder.store, [run], format="verifiers")
    assert report.check.calls == {"no_token_ids": 1, "retokenised": 1}
    assert "verifiers cannot be made of these runs: 1 no_token_ids" in str(report.check.refusal)
    choices = {"format": "verifiers", "settings": {"tokens": "optional"}}
    _, (episode,) = exported(tmp_path, recorder.store, [run], **choices)
    assert [read(trace, 1) for trace in episode["traces"]] == [([], [], []), ([], [], [])]
    assert [tool["name"] for tool in episode["traces"][0]["nodes"][0]["tools"]] == ["look"]
    _, (episode,) = exported(tmp_path, recorder.store, [run], **choices, retokenised=True)
    assert read(episode["traces"][1], 1)[0] == [1, 2]


def test_only_the_trainee_is_trainable(tmp_path: Path) -> None:
    """By agent, or by the model that is to be trained."""
    store, trace = nested(tmp_path)
    settings = {"trainable": "scout"}
    _, (episode,) = exported(tmp_path, store, [trace], format="verifiers", settings=settings)
    assert [one["agent"]["trainable"] for one in episode["traces"]] == [False, True]
    _, (episode,) = exported(tmp_path, store, [trace], format="verifiers", trainee="other")
    assert [one["agent"]["trainable"] for one in episode["traces"]] == [False, False]


def test_versions_and_advantages_are_where_the_trainer_looks_for_them(tmp_path: Path) -> None:
    """The span of versions on the episode; an advantage on each sampled token, on request."""
    recorder = Recorder(tmp_path)
    runs = [
        recorder.run(
            number,
            [Call("a", ASK, [text("assistant", "x y")], tokens=tokens("x y"), policy_version="v7")],
            task="tide",
            reward=float(number),
        )
        for number in (1, 2)
    ]
    choices = {"format": "verifiers", "settings": {"advantages": "group", "scale": "none"}}
    _, episodes = exported(tmp_path, recorder.store, runs, **choices)
    assert [one["run"]["work"]["policy"] for one in episodes] == [{"start": 7, "end": 7}] * 2
    nodes = [one["traces"][0]["nodes"][1] for one in episodes]
    assert [node["advantages"] for node in nodes] == [[-0.5, -0.5], [0.5, 0.5]]
    _, episodes = exported(tmp_path, recorder.store, runs, format="verifiers")
    assert "advantages" not in episodes[0]["traces"][0]["nodes"][1]


def test_a_call_has_its_own_runs_advantage_whatever_its_id_is(tmp_path: Path) -> None:
    """Ids of calls are unique in a run; other tracers count them, from one in each."""
    recorder = Recorder(tmp_path)
    call = Call("a", ASK, [text("assistant", "x")], tokens=tokens("x"))
    runs = [recorder.run(number, [call], task="tide", reward=float(number)) for number in (1, 2)]
    (mine, other) = (run.turns[0].id for run in runs)
    runs[1] = load(dump(runs[1]).replace(other.encode(), mine.encode()))
    assert [run.turns[0].id for run in runs] == [mine, mine]
    choices = {"format": "verifiers", "settings": {"advantages": "group", "scale": "none"}}
    _, episodes = exported(tmp_path, recorder.store, runs, **choices)
    nodes = [one["traces"][0]["nodes"][1] for one in episodes]
    assert [node["advantages"] for node in nodes] == [[-0.5], [0.5]]


def test_messages_that_verifiers_has_no_type_for_are_told(tmp_path: Path) -> None:
    """Their call is left out, not their message."""
    recorder = Recorder(tmp_path)
    odd = [text("narrator", "Once."), *ASK]
    calls = [
        Call("a", odd, [text("assistant", "x")], tokens=tokens("x")),
        Call("b", [text("developer", "Be."), *ASK], [text("assistant", "x")], tokens=tokens("x")),
    ]
    run = recorder.run(1, calls, task="tide", reward=1.0)
    report, (episode,) = exported(tmp_path, recorder.store, [run], format="verifiers")
    assert report.check.calls == {"unwritable": 1}
    assert episode["traces"][0]["nodes"][0]["message"] == {"role": "system", "content": "Be."}


@pytest.mark.parametrize("setting", ["traces", "advantages", "tokens"])
def test_a_setting_that_is_none_is_refused(setting: str, tmp_path: Path) -> None:
    """The message says what it may be."""
    recorder = Recorder(tmp_path)
    run = siblings(recorder)
    with pytest.raises(ConfigError, match=f"{setting} must be one of"):
        exported(tmp_path, recorder.store, [run], format="verifiers", settings={setting: "x"})


def test_a_thousand_runs_are_an_episode_each(thousand, tmp_path: Path) -> None:
    """Every call is a sampled node of one of them."""
    store, made = thousand
    report, episodes = exported(tmp_path, store, made, format="verifiers")
    nodes = [node for one in episodes for trace in one["traces"] for node in trace["nodes"]]
    assert (len(episodes), sum(node["sampled"] for node in nodes)) == (1_000, 3_000)
    assert report.check.calls == {}
