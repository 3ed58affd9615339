"""verifiers' own `WireEpisode` over our lines: graphs, tokens, rewards and links come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.exporting import exported, rows
from tests.nested import nested
from tests.recorded import Recorder, siblings
from tests.trainers.present import needs

pytestmark = [
    needs("verifiers"),
    pytest.mark.filterwarnings("ignore"),  # a trainer's own warnings are its own
]


def loaded(given: list[dict[str, Any]]) -> list[Any]:
    """Read rows as verifiers does."""
    from verifiers.v1.episode import WireEpisode

    return [WireEpisode.model_validate(row) for row in given]


def test_a_conversation_comes_back_as_one_training_sample(tmp_path: Path) -> None:
    """A branch has the tokens, the mask and the log probabilities, aligned."""
    store, trace = nested(tmp_path)
    (episode,) = loaded(exported(tmp_path, store, [trace], format="verifiers")[1])
    (lead,) = episode.by_agent["lead"]
    (branch,) = lead.branches
    assert branch.token_ids == [1, 2, 3, 4, 5, 6, 7, 12, 13]
    assert branch.sampled_mask == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 2
    assert branch.logprobs == [0, 0, 0, -0.04, -0.05, 0, 0, -0.12, -0.13]
    assert [message.role for message in branch.messages] == ["user", "assistant"] * 2
    assert (lead.reward, lead.num_turns, lead.num_output_tokens) == (1.0, 2, 4)
    assert (episode.task.key, episode.group.id, episode.ok) == ("tide", "tide", True)
    assert len(episode.by_agent["scout"][0].branches) == 2


def test_semantic_parents_come_back(tmp_path: Path) -> None:
    """Typed links, to nodes that are there."""
    store, trace = nested(tmp_path)
    settings = {"traces": "run"}
    _, given = exported(tmp_path, store, [trace], format="verifiers", settings=settings)
    (whole,) = loaded(given)[0].traces
    types = [link.type for node in whole.nodes for link in node.semantic_parents]
    assert sorted(types) == ["subagent_call"] * 2 + ["subagent_return"] * 2
    assert all(
        whole.nodes[link.node].sampled for node in whole.nodes for link in node.semantic_parents
    )


def test_siblings_with_one_prompt_come_back_with_their_own_rewards(tmp_path: Path) -> None:
    """One agent, three traces."""
    recorder = Recorder(tmp_path)
    _, given = exported(tmp_path, recorder.store, [siblings(recorder)], format="verifiers")
    (episode,) = loaded(given)
    assert [trace.reward for trace in episode.by_agent["scout"]] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("traces", ["instance", "run"])
@pytest.mark.parametrize("name", ["by hand", "demo", "thousand"])
def test_every_run_is_accepted(sources, name: str, traces: str, tmp_path: Path) -> None:
    """Each sampled token has its log probability, aligned; the demo's models give texts alone."""
    if name not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    settings = {"traces": traces, "tokens": "optional"}
    report = sources[name].export("verifiers", tmp_path / "out", settings=settings)
    episodes = loaded(rows(tmp_path / "out" / "train.jsonl"))
    assert len(episodes) == report.check.records > 0
    for trace in (trace for episode in episodes for trace in episode.traces):
        sampled = [node for node in trace.nodes if node.sampled]
        assert sorted(call.node for call in trace.calls) == [
            place for place, node in enumerate(trace.nodes) if node.sampled
        ]
        assert all(sum(node.mask) == len(node.logprobs) for node in sampled)
        for branch in trace.branches:
            assert len(branch.token_ids) == len(branch.sampled_mask) == len(branch.logprobs)


def test_advantages_of_groups_come_back_on_the_sampled_tokens(sources, tmp_path: Path) -> None:
    """And the versions of the policy on the episode."""
    settings = {"advantages": "group"}
    sources["thousand"].export("verifiers", tmp_path / "out", settings=settings)
    for episode in loaded(rows(tmp_path / "out" / "train.jsonl")):
        assert episode.run.work.policy.drift == 0
        for branch in (branch for trace in episode.traces for branch in trace.branches):
            assert len(branch.advantages) == len(branch.token_ids)
            pairs = zip(branch.advantages, branch.sampled_mask, strict=True)
            assert all(is_sampled or not value for value, is_sampled in pairs)
