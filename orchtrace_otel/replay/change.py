"""What a replay does otherwise than the recorded run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchtrace_otel.replay.players import Player

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One counterfactual: run again what lies downstream of these players, all else as recorded.

    Attributes:
        without: Players that are taken out: a message is never sent, an agent never works.
        edits: Player to what it is instead: another text of a message, another role of
            an agent, another value of a capacity. The host's code knows what a value means.
        anew: Players that stay as they are, and downstream of which all runs anew too.
            What a removal is compared with: the run with the player in it, and the dice
            thrown again.
    """

    without: frozenset[Player] = frozenset()
    edits: Mapping[Player, Any] = field(default_factory=dict[Player, Any])
    anew: frozenset[Player] = frozenset()

    @property
    def touched(self) -> frozenset[Player]:
        """All players downstream of which the run is run again."""
        return self.without | self.edits.keys() | self.anew

    def key(self) -> str:
        """The change as text, the same in every process; for journals.

        Example:
            >>> from orchtrace_otel.replay.players import Part
            >>> Change(without=frozenset({Part("agent", "critic")})).key()
            '{"anew":[],"edits":[],"without":[["agent","critic"]]}'
        """
        edits = sorted(([*player], repr(value)) for player, value in self.edits.items())
        parts = {
            "anew": sorted([*player] for player in self.anew),
            "edits": edits,
            "without": sorted([*player] for player in self.without),
        }
        return json.dumps(parts, sort_keys=True, separators=(",", ":"))
