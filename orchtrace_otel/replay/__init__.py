"""Counterfactual credit: parts of a run taken out or edited, and the rest run again.

`orchtrace_otel.counterfactual` is the way in. Here are the words it takes and gives;
`Replayer` is the seam through which a framework's adapter, or anything else that can
be run again, is asked.
"""

from __future__ import annotations

from orchtrace_otel.playback import Recording, is_replaying, record
from orchtrace_otel.replay.change import Change
from orchtrace_otel.replay.players import (
    PARTS,
    Part,
    Player,
    Slot,
    describe,
    find_reads,
    find_slots,
)
from orchtrace_otel.replay.replayer import PlainReplay, Replayer, Score

__all__ = [
    "PARTS",
    "Change",
    "Part",
    "PlainReplay",
    "Player",
    "Recording",
    "Replayer",
    "Score",
    "Slot",
    "describe",
    "find_reads",
    "find_slots",
    "is_replaying",
    "record",
]
