"""TRL itself takes a step of training from our files: offline, on a CPU, with a model made here.

`make test-trainers` makes its environment.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import math
import os
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from orchtrace_otel.datasets.reasons import REASONS

HERE = importlib.util.find_spec("trl") is not None
pytestmark = [
    pytest.mark.skipif(not HERE, reason="make test-trainers runs it, in TRL's own environment"),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries are not ours
]
if HERE:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    import torch
    import trl
    from datasets import Dataset, load_dataset
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        LlamaForSequenceClassification,
        PreTrainedTokenizerFast,
    )

    torch.set_num_threads(1)  # for so small a model more of them wait for one another

NO_DEMO = "the demo's runs are where ORCHTRACE_DEMO says; make test-trainers makes them"
SOURCES = ["by hand", "demo", "thousand"]
TRAINED = 4
"""Rows that are trained: the whole file is loaded, a step is enough to see that it fits."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A token a byte, and the chat template of Qwen 3, which has tools and what was thought."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({one: n for n, one in enumerate([*special, *letters])}, []))
    made.add_special_tokens(special)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=special[2], pad_token=special[0]
    )
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    fast.chat_template = template.read_text(encoding="utf-8")
    return fast


def model(tokenizer: Any, kind: str = "LlamaForCausalLM") -> Any:
    """Two layers of 32 numbers."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=8_192,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        num_labels=1,
    )
    made = {
        "LlamaForCausalLM": LlamaForCausalLM,
        "LlamaForSequenceClassification": LlamaForSequenceClassification,
    }
    return made[kind](config)


def loaded(sources: Any, source: str, name: str, tmp_path: Path, **choices: Any) -> Any:
    """Export some runs and load the file the way its users do."""
    if source not in sources:
        pytest.skip(NO_DEMO)
    report = sources[source].export(name, tmp_path / "out", **choices)
    assert report.check.refusal is None, report.check.refusal
    file = str(tmp_path / "out" / "train.jsonl")
    rows = load_dataset(
        "json",
        data_files=file,
        split="train",
        chunksize=1 << 30,
        cache_dir=str(tmp_path / "cache"),
    )
    assert len(rows) == report.check.records
    return rows


def choices_of(tmp_path: Path) -> dict[str, Any]:
    """What all trainers are told: one step, of two rows, on the CPU, nothing reported."""
    return {
        "output_dir": str(tmp_path / "model"),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
    }


def step(trainer: Any) -> dict[str, float]:
    """Take the step; return what the trainer logged of it."""
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    assert trainer.state.global_step == 1
    (logged,) = [one for one in trainer.state.log_history if "loss" in one]
    assert math.isfinite(logged["loss"])
    after = trainer.model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before), "nothing was learnt"
    return logged


def few(rows: Any) -> Any:
    """The first rows; a step is enough to see that all fit."""
    return rows.select(range(min(len(rows), TRAINED)))


def learnt(trained: Any) -> list[int]:
    """The ids that the loss falls on."""
    return [one for one in trained["labels"] if one != -100]


@pytest.mark.parametrize("source", SOURCES)
def test_sft_learns_completions_with_tools(sources, source, tokenizer, tmp_path) -> None:
    """The tools on offer are read, what was written is learnt, calls of tools too; no more."""
    rows = loaded(sources, source, "trl-sft", tmp_path)
    with_tools = few(rows.filter(lambda row: row["tools"] != "[]"))
    config = trl.SFTConfig(**choices_of(tmp_path), max_length=None)
    trainer = trl.SFTTrainer(
        model(tokenizer), config, train_dataset=with_tools, processing_class=tokenizer
    )
    for row, trained in zip(with_tools, trainer.train_dataset, strict=True):
        schema = json.loads(row["tools"])[0]
        read, written = tokenizer.decode(trained["input_ids"]), tokenizer.decode(learnt(trained))
        (said,) = row["completion"]
        calls = said.get("tool_calls") or []
        assert json.dumps(schema, ensure_ascii=False) in read
        assert schema["function"]["description"] not in written
        assert said["content"] in written
        assert row["prompt"][-1]["content"] not in written
        assert written.count("<tool_call>") == len(calls)
        for call in calls:
            arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            assert f'"arguments": {arguments}}}' in written
    step(trainer)


@pytest.mark.parametrize("source", ["by hand", "thousand"])
def test_sft_learns_the_very_tokens_that_were_sampled(sources, source, tokenizer, tmp_path) -> None:
    """Of the ids of prompt and completion only those fall into the loss that the policy wrote."""
    rows = loaded(sources, source, "trl-sft-tokens", tmp_path)
    trained = few(rows.filter(is_forced_in) if source == "by hand" else rows)
    config = trl.SFTConfig(**choices_of(tmp_path), max_length=None)
    trainer = trl.SFTTrainer(
        model(tokenizer), config, train_dataset=trained, processing_class=tokenizer
    )
    for row, seen in zip(trained, trainer.train_dataset, strict=True):
        ids = zip(row["input_ids"], row["completion_mask"], strict=True)
        assert learnt(seen) == [one for one, mask in ids if mask]
        assert row["input_ids"][:3] == [1, 2, 3]
    step(trainer)


@pytest.mark.parametrize("source", ["by hand", "thousand"])
def test_dpo_takes_pairs(sources, source, tokenizer, tmp_path) -> None:
    """The better and the worse answer to one prompt, beside a model of reference."""
    rows = loaded(sources, source, "trl-dpo", tmp_path)
    config = trl.DPOConfig(**choices_of(tmp_path), max_length=None)
    trainer = trl.DPOTrainer(
        model(tokenizer),
        model(tokenizer),
        config,
        train_dataset=few(rows),
        processing_class=tokenizer,
    )
    for row, seen in zip(few(rows), trainer.train_dataset, strict=True):
        for side in ("chosen", "rejected"):
            assert row[side][0]["content"] in tokenizer.decode(seen[f"{side}_ids"])
    logged = step(trainer)
    assert logged["loss"] == pytest.approx(math.log(2), abs=1e-3)  # nothing is preferred yet


@pytest.mark.parametrize("source", SOURCES)
def test_kto_takes_good_and_bad_answers(sources, source, tokenizer, tmp_path) -> None:
    """Each on its own, as many of each kind as there are."""
    rows = loaded(sources, source, "trl-kto", tmp_path)
    labels = Counter(rows["label"])
    if source != "demo":  # where all stopped well
        assert set(labels) == {True, False}
        rows = rows.sort("label", reverse=True)
        rows = rows.select([0, 1, len(rows) - 2, len(rows) - 1])
    config = trl.KTOConfig(**choices_of(tmp_path), max_length=None)
    trainer = trl.KTOTrainer(
        model(tokenizer),
        model(tokenizer),
        config,
        train_dataset=few(rows),
        processing_class=tokenizer,
    )
    step(trainer)


@pytest.mark.parametrize("of", ["calls", "orchestrations"])
@pytest.mark.parametrize("source", ["by hand", "thousand"])
def test_the_reward_trainer_takes_pairs(sources, source, of, tokenizer, tmp_path) -> None:
    """Of calls, and of whole orchestrations, with their margin."""
    rows = loaded(sources, source, "trl-reward", tmp_path, settings={"of": of})
    assert min(rows["margin"]) > 0
    config = trl.RewardConfig(**choices_of(tmp_path), max_length=None)
    trainer = trl.RewardTrainer(
        model(tokenizer, "LlamaForSequenceClassification"),
        args=config,
        train_dataset=few(rows),
        processing_class=tokenizer,
    )
    assert "margin" in trainer.train_dataset.column_names
    step(trainer)


@pytest.mark.parametrize("source", SOURCES)
def test_grpo_hands_logged_rewards_to_reward_functions(
    sources, source, tokenizer, tmp_path
) -> None:
    """It samples anew; what earlier answers to the same prompt earned is a column beside it."""
    rows = few(loaded(sources, source, "trl-grpo", tmp_path))
    seen: list[list[float]] = []

    def beyond_logged(prompts, completions, logged_rewards, task_id, **_: Any) -> list[float]:
        seen.extend(logged_rewards)
        return [
            len(set(completion[0]["content"])) / 10 - fmean(rewards)
            for completion, rewards in zip(completions, logged_rewards, strict=True)
        ]

    config = trl.GRPOConfig(
        **choices_of(tmp_path), num_generations=2, max_completion_length=8, temperature=1.0
    )
    trainer = trl.GRPOTrainer(
        model(tokenizer),
        reward_funcs=beyond_logged,
        args=config,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    step(trainer)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0] in rows["logged_rewards"]


@pytest.mark.parametrize("source", ["by hand", "thousand"])
def test_grpo_replays_what_was_sampled(sources, source, tokenizer, tmp_path) -> None:
    """A rollout function gives it the logged tokens and rewards, and nothing is generated."""
    roles = frozenset() if source == "by hand" else frozenset({"planner"})
    rows = loaded(sources, source, "trl-rollout", tmp_path, roles=roles)
    of_prompt: dict[str, list[Any]] = {}
    for row in rows:
        of_prompt.setdefault(asked(row["prompt"]), []).append(row)
    known = [held for held in of_prompt.values() if len(held) >= 4]
    known = sorted(known, key=lambda held: not is_forced_in(held[0]))[:1]
    assert is_forced_in(known[0][0]) == (source == "by hand")
    given: list[Any] = []

    def replay(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        left = {asked(held[0]["prompt"]): iter(held) for held in known}
        given.extend(next(left[asked(prompt)]) for prompt in prompts)
        cut = [row["completion_mask"].index(1) for row in given]
        return {
            "prompt_ids": [row["input_ids"][:n] for row, n in zip(given, cut, strict=True)],
            "completion_ids": [row["input_ids"][n:] for row, n in zip(given, cut, strict=True)],
            "logprobs": [row["old_log_probs"][n:] for row, n in zip(given, cut, strict=True)],
            "env_mask": [row["completion_mask"][n:] for row, n in zip(given, cut, strict=True)],
            "reward": [row["metrics"]["reward"] for row in given],
            "policy_version": [row["policy_version"] for row in given],
        }

    def logged(completions: Any, reward: list[float], **_: Any) -> list[float]:
        return reward

    config = trl.GRPOConfig(
        **{**choices_of(tmp_path), "per_device_train_batch_size": 4},
        num_generations=4,
        max_completion_length=64,
    )
    trainer = trl.GRPOTrainer(
        model(tokenizer),
        reward_funcs=logged,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": held[0]["prompt"]} for held in known]),
        processing_class=tokenizer,
        rollout_func=replay,
    )
    said = step(trainer)
    rewards = [row["metrics"]["reward"] for row in given]
    assert len(given) == 4
    assert said["rewards/logged/mean"] == pytest.approx(fmean(rewards), rel=1e-4)
    written = [sum(row["completion_mask"]) for row in given]
    assert said["completions/mean_length"] == pytest.approx(fmean(written))


@pytest.mark.parametrize("source", SOURCES)
def test_a_folder_of_hf_is_a_data_set_to_load_and_train_on(
    sources, source, tokenizer, tmp_path
) -> None:
    """By the folder's name alone, with its splits and its card; its rows are conversations."""
    if source not in sources:
        pytest.skip(NO_DEMO)
    report = sources[source].export("hf", tmp_path / "out", validation=0.4)
    found = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in found.items()} == dict(report.splits)
    most = max(found.values(), key=len)
    assert most.features["prompt"].feature["content"].dtype == "string"
    rows = few(most.select_columns(["prompt", "completion", "tools"]))
    config = trl.SFTConfig(**choices_of(tmp_path), max_length=None)
    step(trl.SFTTrainer(model(tokenizer), config, train_dataset=rows, processing_class=tokenizer))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("trl-dpo", "one_sample"),
        ("trl-reward", "one_sample"),
        ("trl-rollout", "no_token_ids"),
        ("trl-sft-tokens", "no_token_ids"),
    ],
)
def test_what_the_demo_cannot_give_is_refused_with_its_reason(
    sources, name, reason, tmp_path
) -> None:
    """Its models are scripted: one answer a prompt, and no token ids."""
    if "demo" not in sources:
        pytest.skip(NO_DEMO)
    report = sources["demo"].export(name, tmp_path / "out")
    assert reason in report.check.calls
    assert f"{reason}: {REASONS[reason]}" in str(report.check.refusal)
    assert not (tmp_path / "out").exists()


def is_forced_in(row: Any) -> bool:
    """Whether some token of the completion is not the policy's; prompts here are three long."""
    return 0 in row["completion_mask"][3:]


def asked(prompt: list[Any]) -> str:
    """A prompt as text to compare, without what a loader adds: keys that hold nothing."""
    said = [{key: value for key, value in one.items() if value is not None} for one in prompt]
    return json.dumps(said, sort_keys=True)


@pytest.mark.parametrize("template", ["llama3_1", "qwen2_5", "qwen3", "qwen3_5_think", "gptoss"])
def test_templates_write_arguments_of_tools_as_policies_do(
    sources, tokenizer, tmp_path, template: str
) -> None:
    """As an object each in its own way; a text some would put in quotes, and others refuse."""
    rows = loaded(sources, "by hand", "trl-sft", tmp_path)
    file = Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja"
    texts = [
        tokenizer.apply_chat_template(
            [*row["prompt"], *row["completion"]],
            tools=json.loads(row["tools"]),
            chat_template=file.read_text(encoding="utf-8"),
            tokenize=False,
        )
        for row in rows
        if row["completion"][0].get("tool_calls")
    ]
    assert texts
    assert all("tide" in text and '\\"what' not in text for text in texts)


@pytest.mark.parametrize("source", ["by hand", "thousand"])
def test_rollouts_are_samples_of_the_asynchronous_trainer(
    sources, source, tokenizer, tmp_path
) -> None:
    """Its own packer lays them out: a log probability and an advantage a token that was written.

    Its step needs a GPU: attention over the packed tree is a kernel.
    """
    import numpy as np
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample
    from trl.experimental.async_grpo.packing import TreeRow

    kinds = {"input_ids": np.int64, "completion_mask": np.int64, "old_log_probs": np.float32}
    names = [one.name for one in dataclasses.fields(RolloutSample) if one.name != "enqueued_at"]
    rows = few(loaded(sources, source, "trl-rollout", tmp_path))
    packed = TreeRow()
    for row in rows:
        held = {name: np.asarray(row[name], kinds[name]) for name in kinds}
        sample = RolloutSample(**{**{name: row[name] for name in names}, **held})
        assert {len(one) for one in held.values()} == {len(sample.input_ids)}
        assert isinstance(sample.model_version, int)
        packed.add(dataclasses.asdict(sample))
    laid = packed.pack()
    written = [sum(row["completion_mask"]) for row in rows]
    assert laid["segment_id"].tolist() == [
        n for n, count in enumerate(written) for _ in range(count)
    ]
    assert laid["old_log_probs"].tolist() == [-0.5] * sum(written)
    advantages = [
        row["advantage"] for row, count in zip(rows, written, strict=True) for _ in range(count)
    ]
    assert laid["advantages"].tolist() == pytest.approx(advantages)
