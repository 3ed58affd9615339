"""What is seen and done as numbers: each name has one place, whatever came in which order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchtrace_datasets.episodes import Space

NAMES = st.sampled_from(["drafts", "had", "run.step", "tokens", "é", "x y"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "seen": st.dictionaries(NAMES, NUMBERS, max_size=4),
            "legal": st.lists(st.sampled_from("abc"), min_size=1, unique=True),
        }
    ),
    min_size=1,
    max_size=6,
)


def space_of(steps: list[dict[str, Any]]) -> Space:
    """A space that knows some steps, an episode each."""
    space = Space()
    for step in steps:
        space.take({"steps": [step]})
    return space


@given(STEPS)
def test_a_vector_tells_each_feature_and_whether_it_was_seen(steps: list[dict[str, Any]]) -> None:
    """So that what was seen can be read back from it."""
    space = space_of(steps)
    marked = {name for name in space.observations if name.removeprefix("has:") != name}
    for step in steps:
        held = dict(zip(space.observations, space.vector(step["seen"]), strict=True))
        read = {
            name: value
            for name, value in held.items()
            if name not in marked - step["seen"].keys() and held.get(f"has:{name}", 1.0) == 1.0
        }
        assert read == step["seen"]


@given(STEPS)
def test_an_action_has_one_number_and_a_mask_its_place(steps: list[dict[str, Any]]) -> None:
    """Numbers are dense, and a mask is 1 for just what could have been done."""
    space = space_of(steps)
    assert list(space.actions.values()) == list(range(len(space.actions)))
    for step in steps:
        allowed = [
            one
            for one, is_legal in zip(space.actions, space.mask(step["legal"]), strict=True)
            if is_legal
        ]
        assert allowed == sorted(step["legal"])


@given(STEPS, st.randoms(use_true_random=False))
def test_order_of_arrival_changes_nothing(steps: list[dict[str, Any]], chance: Any) -> None:
    """The same runs give the same numbers, from whatever worker they come first."""
    shuffled = list(steps)
    chance.shuffle(shuffled)
    assert space_of(shuffled).to_dict() == space_of(steps).to_dict()
