"""Message graphs and conversations: whatever was called, each call's tokens come back exactly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from orchtrace_datasets.conversations import Conversation
from orchtrace_datasets.provenance import Sampled
from orchtrace_datasets.verifiers_nodes import Nodes

Call = tuple[list[str], str, list[int] | None, list[int]]
"""Messages read, the message written, the prompt's ids if any, and the completion's."""

IDS = st.lists(st.integers(0, 2), min_size=1, max_size=4)
WORDS = st.sampled_from("abc")
FREE = st.tuples(st.lists(WORDS, max_size=4), WORDS, st.none() | IDS, IDS)


@st.composite
def calls(draw: st.DrawFn) -> list[Call]:
    """Calls of which some go on from an earlier one: in words, in tokens, in both or neither."""
    made: list[Call] = []
    for _ in range(draw(st.integers(1, 6))):
        prompt, answer, read, written = draw(FREE)
        if made and draw(st.booleans()):
            said, was, before, ids = draw(st.sampled_from(made))
            prompt = [*said, was, *prompt]
            if before is not None and draw(st.booleans()):
                read = [*before, *ids, *(read or [])]
        made.append((prompt, answer, read, written))
    return made


def message(role: str, words: str) -> dict[str, Any]:
    """A message as verifiers types it."""
    return {"role": role, "content": words}


def path(nodes: Nodes, node: int) -> list[dict[str, Any]]:
    """The nodes from a root to one."""
    return [nodes.rows[one] for one in (*reversed(list(nodes.above(node))), node)]


def graph(given_calls: list[Call]) -> Nodes:
    """Add calls of one instance to a graph."""
    nodes = Nodes()
    for place, (prompt, answer, read, written) in enumerate(given_calls):
        call: Any = SimpleNamespace(
            id=str(place), row={"instance": "a#1"}, content=SimpleNamespace(tools=())
        )
        logprobs = [-float(one) for one in written]
        tokens = None if read is None else Sampled(read, written, [1] * len(written), logprobs)
        # An answer and the same words read again are one message.
        said = [message("assistant", words) for words in prompt]
        nodes.add(call, said, message("assistant", answer), tokens, 0.0)
    return nodes


@given(calls())
@example([(["a"], "b", [1], [2]), (["a", "b", "c"], "a", None, [1])])
@example([(["a"], "b", None, [2]), (["a", "b"], "c", [1], [1])])
@example([(["a"], "b", [1], [2]), (["a"], "b", [1], [2]), (["a", "b"], "c", [1, 2, 0], [1])])
def test_a_path_is_what_a_call_read_and_wrote(given_calls: list[Call]) -> None:
    """Messages and tokens, the answer's alone sampled by it, whichever nodes are shared."""
    nodes = graph(given_calls)
    assert sum(row["sampled"] for row in nodes.rows) == len(given_calls)
    for place, (prompt, answer, read, written) in enumerate(given_calls):
        node = nodes.of_call[str(place)]
        held = path(nodes, node)
        assert [one["message"]["content"] for one in held] == [*prompt, answer]
        ids = [one for row in held for one in row["token_ids"]]
        assert ids == ([] if read is None else [*read, *written])
        last = nodes.rows[node]
        assert last["sampled"]
        assert len(last["mask"]) == len(last["token_ids"])
        assert sum(last["mask"]) == len(last["logprobs"]) == (0 if read is None else len(written))


@given(calls())
def test_a_parent_stands_before_its_child(given_calls: list[Call]) -> None:
    """So that a reader may go through once."""
    for place, row in enumerate(graph(given_calls).rows):
        assert row["parent"] is None or row["parent"] < place


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=5))
def test_a_conversation_masks_all_that_others_wrote(
    parts: list[tuple[list[int], list[int]]],
) -> None:
    """Each completion is where it was; in between are zeros, without log probabilities."""
    first, *_ = parts
    one = Conversation(list(first[0]))
    for read, written in parts:
        so_far = [*one.prompt_ids, *one.ids]
        prompt = so_far if not one.calls else [*so_far, *read]
        assert one.is_continued_by(prompt)
        logprobs = [-1.0] * len(written)
        call: Any = None
        one.append(call, Sampled(prompt, written, [1] * len(written), logprobs))
    assert len(one.ids) == len(one.mask) == len(one.logprobs)
    said = [number for number, mask in zip(one.ids, one.mask, strict=True) if mask]
    assert said == [number for _, written in parts for number in written]
    assert [value == -1.0 for value in one.logprobs] == [bool(mask) for mask in one.mask]
    assert not one.is_continued_by([*one.prompt_ids, *one.ids][:-1])
