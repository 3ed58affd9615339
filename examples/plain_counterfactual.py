"""What was each message worth? Take it out, run the rest again, and compare.

A scout and a gossip write to a cook, who decides what to serve. The replay is a function of
what is taken out and of a seed. The shop is a tool that must not be asked twice: replays
get what it said in the recorded run.
Run it, then: orchtrace show orchtrace-data
"""

from __future__ import annotations

import random

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Change, Slot, describe, record

MENU = ("pie", "soup", "stew")
TIP = Slot("scout", "cook", 1)
RUMOUR = Slot("gossip", "cook", 1)


@orchtrace.tool
def ask_shop(question: str) -> str:
    """Ask once; every call costs money."""
    return {"what is fresh?": "pumpkins, for a soup"}[question]


@orchtrace.agent("scout", role="executor")
def scout() -> str:
    """Find out what is fresh."""
    tip = ask_shop("what is fresh?")
    orchtrace.message("cook", tip)
    return tip


@orchtrace.agent("gossip")
def gossip() -> str:
    """Say something that helps nobody."""
    rumour = "the mayor has a new hat"
    orchtrace.message("cook", rumour)
    return rumour


@orchtrace.agent("cook", role="executor")
def cook(letters: list[str], dice: random.Random) -> str:
    """Take the dish that a letter names, else any."""
    named = [dish for dish in MENU if any(dish in letter for letter in letters)]
    return named[0] if named and dice.random() < 0.9 else dice.choice(MENU)  # noqa: PLR2004 - a cook errs


def is_right(dish: str) -> float:
    """Only the soup was right that day."""
    return float(dish == "soup")


@orchtrace.team("kitchen", task_id="dinner", reward=is_right)
def dinner(seed: int = 0, without: frozenset[object] = frozenset()) -> str:
    """Serve; messages in `without` never reach the cook."""
    letters = {TIP: scout(), RUMOUR: gossip()}
    kept = [text for slot, text in letters.items() if slot not in without]
    return cook(kept, random.Random(seed))  # noqa: S311 - a cook's mood


def replay(change: Change, seed: int) -> float:
    """Run it again as `change` says; nothing of it is traced."""
    return is_right(dinner(seed, frozenset(change.without)))


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl, then ask what its messages were worth."""
    traces: list[orchtrace.Trace] = []
    orchtrace.configure(exporters=["jsonl:orchtrace-data/", _Keeper(traces)])
    with record() as recording:
        dinner()
    orchtrace.flush()
    found = orchtrace.counterfactual(traces[0], replay, replays=200, recording=recording)
    for effect in found.ranked():
        low, high = effect.estimate.low or 0.0, effect.estimate.high or 0.0
        print(f"{describe(effect.player)}: {effect.value:+.2f} [{low:+.2f}, {high:+.2f}]")
    orchtrace.shutdown()


class _Keeper:
    """An exporter that keeps traces in memory."""

    def __init__(self, traces: list[orchtrace.Trace]) -> None:
        self.export = traces.append

    def amend(self, run_id: str, reward: orchtrace.Reward) -> None:
        """No reward comes late here."""

    def flush(self, timeout_s: float) -> None:
        """There is nothing to wait for."""

    def shutdown(self) -> None:
        """There is nothing to close."""


if __name__ == "__main__":
    main()
