"""How replays become numbers: every method by its name.

Each runs its replays in rounds; between rounds it looks whether the intervals are narrow
enough. What a replay without a value would have told is left out, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from orchtrace_otel.replay.comparing import alternatives, edits, leave_one_out
from orchtrace_otel.replay.sharing import banzhaf, shapley
from orchtrace_otel.replay.walking import permutations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchtrace_otel.replay.game import Found, Game

METHODS: Final[Mapping[str, Callable[[Game], list[Found]]]] = {
    "leave_one_out": leave_one_out,
    "shapley": shapley,
    "permutations": permutations,
    "banzhaf": banzhaf,
    "alternatives": alternatives,
    "edits": edits,
}
"""Every method by its name."""
