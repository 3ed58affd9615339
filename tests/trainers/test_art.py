"""ART's own `TrajectoryGroup` over our lines, and its tokens of them.

`make test-trainers` makes its environment.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.exporting import exported, rows
from tests.nested import nested
from tests.recorded import Recorder, siblings
from tests.trainers.present import needs

pytestmark = [
    needs("art"),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries are not ours
]


class Untouched:
    """A tokenizer that must not be asked: exact ids need none."""

    chat_template = "none"
    eos_token_id = 0
    all_special_ids: tuple[int, ...] = ()

    def __call__(self, *given: Any, **more: Any) -> Any:
        raise AssertionError(given, more)

    apply_chat_template = __call__


class Tide(Untouched):
    """One that renders the conversation of `nested` to other ids for what was sampled.

    Its answers would be 94, 95 and 92, 93: ids of the server must win.
    """

    WORDS: ClassVar = {
        "How high is the tide?": [1, 2],
        "ask two": [3, 94, 95],
        "north: high; south: high": [6],
        "high": [7, 92, 93],
    }

    def __call__(self, said: str, **_: Any) -> Any:
        return {"input_ids": self.WORDS.get(said) or [int(one) for one in said.split()]}

    def apply_chat_template(self, messages: Any, **more: Any) -> Any:
        ids = [one for said in messages for one in self.WORDS[said["content"]]]
        if more.get("add_generation_prompt"):
            ids.append(3 if len(messages) == 1 else 7)
        return ids if more.get("tokenize", True) else " ".join(map(str, ids))


def loaded(given: list[dict[str, Any]]) -> list[Any]:
    """Read rows as ART does."""
    from art.trajectories import TrajectoryGroup

    return [TrajectoryGroup.model_validate(row) for row in given]


def test_a_conversation_is_tokenised_from_the_ids_that_were_sampled(tmp_path: Path) -> None:
    """Prompts exact, answers sampled, with their log probabilities, whatever a tokenizer says."""
    from art.trajectories import TokenFlag

    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    _, planners = loaded(exported(tmp_path, store, [first, second], format="art")[1])
    assert sorted(one.reward for one in planners.trajectories) == [0.0, 1.0]
    for trajectory in planners.trajectories:
        made = trajectory.tokenize(tokenizer=Tide())
        assert made.tokens == [1, 2, 3, 4, 5, 6, 7, 12, 13]
        sampled = [bool(flag & TokenFlag.SAMPLED) for flag in made.flags]
        assert sampled == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 2
        assert all(flag & TokenFlag.EXACT for flag in made.flags)
        told = [value for value, one in zip(made.logprobs, sampled, strict=True) if one]
        assert told == [-0.04, -0.05, -0.12, -0.13]


def test_siblings_come_back_with_their_own_tokens_and_rewards(tmp_path: Path) -> None:
    """One group of three, of one prompt."""
    recorder = Recorder(tmp_path)
    _, given = exported(tmp_path, recorder.store, [siblings(recorder)], format="art")
    (group,) = loaded(given)
    made = [one.tokenize(tokenizer=Untouched()) for one in group.trajectories]
    assert [(one.reward, one.tokens[3:]) for one in made] == [
        (0.0, [10, 11]),
        (0.5, [11, 12]),
        (1.0, [12, 13]),
    ]


@pytest.mark.parametrize("name", ["by hand", "demo", "thousand"])
def test_every_run_is_accepted(sources, name: str, tmp_path: Path) -> None:
    """As texts where a model gave no ids; a group has something to compare."""
    if name not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    settings = {"tokens": "optional"}
    report = sources[name].export("art", tmp_path / "out", settings=settings)
    groups = loaded(rows(tmp_path / "out" / "train.jsonl"))
    assert len(groups) == report.check.records > 0
    for group in groups:
        assert len(group.trajectories) > 1
        assert all(math.isfinite(one.reward) for one in group.trajectories)
        assert all(one.exchanges.chat_completions for one in group.trajectories)
