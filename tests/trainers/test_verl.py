"""verl's own `RLHFDataset` takes our prompts, its `AgentLoopOutput` our rollouts.

`make test-trainers` makes its environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.exporting import exported
from tests.nested import nested
from tests.trainers.present import needs

pytestmark = [
    needs("verl"),
    pytest.mark.filterwarnings("ignore"),  # its own, of its own dependencies
]

TEMPLATE = """{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}
{% if 'tool_calls' in message and message['tool_calls'] %}{{ message['tool_calls'] }}{% endif %}
{% endfor %}<assistant>"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A token a byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({one: n for n, one in enumerate(["<e>", *letters])}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<e>", pad_token="<e>")  # noqa: S106 - tokens of text
    fast.chat_template = TEMPLATE
    return fast


def loaded(file: Path, tokenizer: Any, cache: Path) -> Any:
    """Read a file as verl does, long prompts filtered."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    choices = {"cache_dir": str(cache), "max_prompt_length": 10_000}
    choices |= {"filter_overlong_prompts_workers": None}
    return RLHFDataset(str(file), tokenizer, OmegaConf.create(choices))


@pytest.mark.parametrize("name", ["by hand", "demo", "thousand"])
def test_prompts_are_loaded_and_reach_the_function_of_rewards(
    sources, name: str, tokenizer: Any, tmp_path: Path
) -> None:
    """None is filtered; a batch has what the reward manager reads, with the logged rewards."""
    from verl.utils.dataset.rl_dataset import collate_fn

    if name not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    report = sources[name].export("verl", tmp_path / "out")
    made = loaded(tmp_path / "out" / "train.parquet", tokenizer, tmp_path / "cache")
    assert len(made) == report.check.records > 0
    batch = collate_fn([made[place] for place in range(min(4, len(made)))])
    for source, model, told, prompt in zip(
        *(batch[key] for key in ("data_source", "reward_model", "extra_info", "raw_prompt")),
        strict=True,
    ):
        assert (source, model) == ("orchtrace", {"style": "rule", "ground_truth": ""})
        assert len(told["logged_rewards"]) == len(told["logged_completions"]) > 0
        assert {"role", "content"} <= prompt[0].keys()


def test_a_rollout_is_what_an_agent_loop_returns(tmp_path: Path) -> None:
    """Mask, log probabilities and the reward on the last token, as verl's trainer gets them."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    settings = {"rows": "rollouts"}
    exported(tmp_path, store, [first, second], format="verl", settings=settings)
    (file,) = tmp_path.glob("out-*/train.parquet")
    made = [AgentLoopOutput.model_validate(row) for row in pq.read_table(file).to_pylist()]
    lead = [one for one in made if one.extra_fields["agent"] == "lead"]
    assert sorted(one.reward_score for one in lead) == [0.0, 1.0]
    tensors = max(lead, key=lambda one: one.reward_score).as_dict()
    assert tensors["prompts"].tolist() == [1, 2, 3]
    assert tensors["responses"].tolist() == [4, 5, 6, 7, 12, 13]
    assert tensors["response_mask"].tolist() == [1, 1, 0, 0, 1, 1]
    assert tensors["rm_scores"].tolist() == [0, 0, 0, 0, 0, 1]
    assert tensors["rollout_log_probs"].shape == tensors["responses"].shape


def test_a_thousand_rollouts_are_accepted(sources, tmp_path: Path) -> None:
    """Lengths agree in each, and the version is in `extra_fields`."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

    settings = {"rows": "rollouts"}
    report = sources["thousand"].export("verl", tmp_path / "out", settings=settings)
    given = pq.read_table(tmp_path / "out" / "train.parquet").to_pylist()
    assert len(given) == report.check.records == 3_000
    for row in given:
        one = AgentLoopOutput.model_validate(row)
        assert len(one.response_ids) == len(one.response_mask) == len(one.response_logprobs)
        assert one.extra_fields["max_global_steps"] in range(4)
