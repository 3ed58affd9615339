"""Token ids and log probabilities: taken as servers give them, never guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.content.tokens import Tokens, of_answer, version_of

CHAT = {"content": [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2.0}]}
SPELT = {
    "content": [{"token": "token_id:5", "logprob": -1}, {"token": "token_id:6", "logprob": -2}]
}
SGLANG = {"output_token_logprobs": [[-1.0, 5, "a"], (-2.0, 6, None)]}

TOLD: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "nothing": ((), ("absent", (), (), ())),
    "openai": (({"logprobs": CHAT},), ("absent", (), (), (-1.0, -2.0))),
    "vllm": (
        ({"prompt_token_ids": [1]}, {"token_ids": [5, 6], "logprobs": CHAT}),
        ("exact", (1,), (5, 6), (-1.0, -2.0)),
    ),
    "vllm spelt": (({"logprobs": SPELT},), ("exact", (), (5, 6), (-1.0, -2.0))),
    "sglang": (({"meta_info": SGLANG},), ("exact", (), (5, 6), (-1.0, -2.0))),
    "sglang ids": (({"output_ids": [5], "input_ids": [1]},), ("exact", (1,), (5,), ())),
    "completions": (
        ({"logprobs": {"token_logprobs": [-1.0], "tokens": ["token_id:5"]}},),
        ("exact", (), (5,), (-1.0,)),
    ),
    "a bare list": (({"logprobs": CHAT["content"]},), ("absent", (), (), (-1.0, -2.0))),
    "numbers that differ": (
        ({"token_ids": [5], "logprobs": CHAT},),
        ("exact", (), (5,), ()),
    ),
    "no ids": (({"token_ids": ["a"], "prompt_token_ids": [True]},), ("absent", (), (), ())),
    "half of it": (
        ({"logprobs": {"content": [{"logprob": -1.0}, {"logprob": None}]}},),
        ("absent", (), (), ()),
    ),
    "some spelt": (
        ({"logprobs": {"content": [SPELT["content"][0], CHAT["content"][0]]}},),
        ("absent", (), (), (-1.0, -1.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_an_answer_tells_its_tokens(name: str) -> None:
    """Provenance, ids of the prompt, ids, log probabilities; what does not agree is none."""
    told, wanted = TOLD[name]
    found = of_answer(*told)
    assert (found.provenance, found.prompt_ids, found.ids, found.logprobs) == wanted
    assert found.mask == (1,) * len(found.ids)
    assert (found.why_absent is None) == bool(found.ids)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(object()),
    lambda inner: st.lists(inner)
    | st.dictionaries(
        st.sampled_from(
            ["logprobs", "content", "token", "logprob", "token_ids", "meta_info", "tokens",
             "prompt_token_ids", "output_token_logprobs", "token_logprobs", "weight_version"]
        ),
        inner,
    ),
)  # fmt: skip


@given(st.lists(ODD, max_size=3))
def test_no_answer_is_too_odd(told: list[Any]) -> None:
    """Nothing raises, and what is found holds together."""
    found = of_answer(*told)
    assert (found.provenance == "exact") == bool(found.ids)
    assert len(found.mask) == len(found.ids)
    assert not (found.ids and found.logprobs and len(found.ids) != len(found.logprobs))
    assert Tokens.from_dict(found.to_dict()) == found
    assert version_of(*told) is None or isinstance(version_of(*told), str)


def test_the_version_of_the_weights_is_taken_from_the_answer() -> None:
    """As SGLang tells it, as a text or a number."""
    assert version_of(None, {"meta_info": {"weight_version": 7}}) == "7"
    assert version_of({"weight_version": "step-7"}, {}) == "step-7"
    assert version_of({"weight_version": None}) is None


def test_what_is_known_of_the_policy_is_said_of_tokens_that_are_there() -> None:
    """Tokenizer, template, and whether log probabilities are raw."""
    policy = {"tokenizer": "t", "chat_template": "h", "logprobs_kind": "raw", "version": "v"}
    found = Tokens(provenance="exact", ids=(1,), mask=(1,)).with_policy(policy)
    assert (found.tokenizer, found.chat_template, found.logprobs_kind) == ("t", "h", "raw")
    assert Tokens().with_policy(policy) == Tokens()
