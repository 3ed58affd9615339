"""Agent Lightning 0.3's own span class and adapter take our spans, and match rewards to calls.

`make test-trainers` makes its environment.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from tests.exporting import exported, rows
from tests.nested import nested
from tests.recorded import Call, Recorder, siblings, text, tokens


def _is_here() -> bool:
    try:
        return version("agentlightning").startswith("0.3")
    except PackageNotFoundError:
        return False


pytestmark = [
    pytest.mark.skipif(
        not _is_here(), reason="make test-trainers runs it, with agentlightning 0.3"
    ),
    pytest.mark.filterwarnings("ignore"),  # its own, of its own dependencies
]
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network when imported
SPANS = {"release": "0.3"}


def triplets(row: dict[str, Any]) -> list[Any]:
    """Make of a row's spans what 0.3's trainer gets."""
    from agentlightning.adapter import TracerTraceToTriplet
    from agentlightning.types import Span

    spans = [Span.model_validate(span) for span in row["spans"]]
    return list(TracerTraceToTriplet().adapt(spans))


def test_calls_come_back_with_tokens_agents_and_rewards(tmp_path: Path) -> None:
    """Agent by agent, in order of their beginning."""
    store, trace = nested(tmp_path)
    choices = {"format": "agent-lightning", "settings": SPANS}
    _, (row,) = exported(tmp_path, store, [trace], **choices)
    made = triplets(row)
    assert [one.metadata["agent_name"] for one in made] == ["lead", "lead", "scout", "scout"]
    assert [one.prompt["token_ids"] for one in made[:2]] == [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7]]
    assert [one.response["token_ids"] for one in made[:2]] == [[4, 5], [12, 13]]
    assert [said["logprob"] for said in made[1].response["logprobs"]] == [-0.12, -0.13]
    assert [one.reward for one in made] == [1.0] * 4


def test_each_sibling_gets_the_reward_that_names_it(tmp_path: Path) -> None:
    """Interleaved ones, and some that begin and end together."""
    recorder = Recorder(tmp_path)
    together = [
        Call(
            "a",
            [text("user", "?")],
            [text("assistant", f"x{place}")],
            t=2.0,
            tokens=tokens("x", offset=place),
            reward=float(place),
        )
        for place in range(4)
    ]
    runs = [siblings(recorder, 1), recorder.run(2, together, task="t", reward=0.5)]
    choices = {"format": "agent-lightning", "settings": SPANS}
    _, given = exported(tmp_path, recorder.store, runs, **choices)
    found = {row["rollout"]["input"]["task_id"]: triplets(row) for row in given}
    assert [(one.response["token_ids"], one.reward) for one in found["tide"]] == [
        ([10, 11], 0.0),
        ([11, 12], 0.5),
        ([12, 13], 1.0),
    ]
    assert [(one.response["token_ids"], one.reward) for one in found["t"]] == [
        ([10 + place], float(place)) for place in range(4)
    ]


@pytest.mark.parametrize("name", ["by hand", "demo", "thousand"])
def test_every_run_is_accepted(sources, name: str, tmp_path: Path) -> None:
    """A triplet a call, each with its reward."""
    if name not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    settings = {**SPANS, "tokens": "optional"}
    report = sources[name].export("agent-lightning", tmp_path / "out", settings=settings)
    given = rows(tmp_path / "out" / "train.jsonl")
    assert len(given) == report.check.records > 0
    lineage = rows(tmp_path / "out" / "lineage.jsonl")
    for row, told in zip(given, lineage, strict=True):
        made = triplets(row)
        assert len(made) == len(told["turns"])
        assert all(one.reward is not None for one in made)
