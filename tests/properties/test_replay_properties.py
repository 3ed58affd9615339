"""The axioms of sharing out, for any game and any order of causes."""

import math

from hypothesis import given
from hypothesis import strategies as st

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Trace
from orchtrace_otel.replay import Change, Part
from orchtrace_otel.replay.games import (
    advantages,
    banzhaf_weights,
    coalitions,
    free,
    is_closed,
    shapley_weights,
)

WORTH = st.floats(-1, 1, allow_nan=False)


@st.composite
def causes(draw, most: int = 5):
    """For each player those before it, all of their causes included."""
    count = draw(st.integers(1, most))
    found: list[int] = []
    for player in range(count):
        direct = draw(st.sets(st.integers(0, player - 1))) if player else set()
        before = 0
        for one in direct:
            before |= 1 << one | found[one]
        found.append(before)
    return tuple(found)


@st.composite
def games(draw):
    """Causes, and a value for each closed coalition."""
    found = draw(causes())
    masks = coalitions(found)
    values = draw(st.lists(WORTH, min_size=len(masks), max_size=len(masks)))
    return found, dict(zip(masks, values, strict=True))


def share(weights, worth):
    return [math.fsum(part * worth[mask] for mask, part in one.items()) for one in weights]


@given(games())
def test_shapley_values_add_up_to_what_all_add(game) -> None:
    """Efficiency, with and without causes."""
    found, worth = game
    whole = worth[(1 << len(found)) - 1] - worth[0]
    assert math.isclose(math.fsum(share(shapley_weights(found), worth)), whole, abs_tol=1e-9)


@given(games(), st.data())
def test_a_dummy_gets_nothing(game, data) -> None:
    """Who never changes anything has the value 0, by Shapley and by Banzhaf."""
    found, worth = game
    dummy = data.draw(st.integers(0, len(found) - 1))
    bit = 1 << dummy
    # Those who need the dummy to be in are in only after it, so its own step adds nothing.
    flat = {
        mask: worth[mask & ~bit] if is_closed(mask & ~bit, found) else worth[mask] for mask in worth
    }
    for weights in (shapley_weights(found), banzhaf_weights(found)):
        assert math.isclose(share(weights, flat)[dummy], 0.0, abs_tol=1e-9)


@given(st.integers(2, 5), st.data())
def test_players_who_are_alike_get_the_same(count, data) -> None:
    """Symmetry: the value depends on how many are in, so all get a share alike."""
    by_size = data.draw(st.lists(WORTH, min_size=count + 1, max_size=count + 1))
    worth = {mask: by_size[mask.bit_count()] for mask in range(1 << count)}
    for weights in (shapley_weights(free(count)), banzhaf_weights(free(count))):
        values = share(weights, worth)
        assert all(math.isclose(value, values[0], abs_tol=1e-9) for value in values)


@given(games(), games())
def test_values_of_a_sum_are_the_sum_of_values(one, other) -> None:
    """Additivity, for games of the same players."""
    found, worth = one
    added = {mask: value + other[1].get(mask, 0.0) for mask, value in worth.items()}
    second = {mask: other[1].get(mask, 0.0) for mask in worth}
    weights = shapley_weights(found)
    expected = [a + b for a, b in zip(share(weights, worth), share(weights, second), strict=True)]
    assert all(
        math.isclose(a, b, abs_tol=1e-9)
        for a, b in zip(share(weights, added), expected, strict=True)
    )


@given(st.lists(st.tuples(WORTH, st.integers(1, 50)), min_size=2, max_size=6))
def test_weighted_advantages_cancel_where_weights_are_equal(pairs) -> None:
    """The mean advantage is 0; a shift of all rewards changes none."""
    means = [mean for mean, _ in pairs]
    found = advantages(means, [7] * len(pairs))
    assert math.isclose(math.fsum(found), 0.0, abs_tol=1e-9)
    weights = [weight for _, weight in pairs]
    before = advantages(means, weights)
    after = advantages([mean + 2 for mean in means], weights)
    assert all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(before, after, strict=True))


@given(st.permutations("ABCD"), st.lists(WORTH, min_size=16, max_size=16))
def test_relabelling_permutes_through_real_replays(names, worth) -> None:
    """The numbers go with the player, wherever it is named."""

    def again(change: Change, seed: int) -> float:
        inside = [at for at, name in enumerate("ABCD") if Part("agent", name) not in change.without]
        return worth[sum(1 << at for at in inside)]

    def value_of(order):
        players = [Part("agent", name) for name in order]
        found = orchtrace.counterfactual(
            Trace("run", "task", ()), again, players, method="shapley", replays=1, workers=1
        )
        return {effect.player: effect.value for effect in found.effects}

    one, other = value_of("ABCD"), value_of(names)
    assert all(math.isclose(one[player], other[player], abs_tol=1e-9) for player in one)
