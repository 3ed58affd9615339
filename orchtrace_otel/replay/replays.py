"""The replays of one question: run once each, written down, counted, and shown as they come."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchtrace_otel.replay.change import Change
    from orchtrace_otel.replay.journal import Journal
    from orchtrace_otel.replay.outcome import Outcome
    from orchtrace_otel.replay.running import Runner


class Progress(NamedTuple):
    """How far it is.

    Attributes:
        done: Replays that came to an end, those found in the journal included.
        most: Replays that there will be unless it stops early.
        without_value: Those of `done` that failed, took too long or were blocked.
    """

    done: int
    most: int
    without_value: int


class Replays:
    """Runs what was not run yet, and remembers all.

    Args:
        runner: Runs them.
        journal: Remembers them across processes; None to forget them.
        tell: Called after each, in the thread of the caller.
        most: How many there will be at most.
    """

    def __init__(
        self,
        runner: Runner,
        journal: Journal | None,
        tell: Callable[[Progress], None] | None,
        most: int,
    ) -> None:
        self._runner = runner
        self._journal = journal
        self._tell = tell
        self._most = most
        self._known: dict[tuple[str, int], Outcome] = {}
        self.counts: Counter[str] = Counter()

    def run(self, jobs: Sequence[tuple[Change, int]]) -> list[Outcome]:
        """Return the outcomes of `jobs`, in their order; equal jobs are run once."""
        keys = [(change.key(), seed) for change, seed in jobs]
        waiting: dict[tuple[str, int], tuple[Change, int]] = {}
        for key, job in zip(keys, jobs, strict=True):
            if key in self._known or key in waiting:
                continue
            found = None if self._journal is None else self._journal.find(*job)
            if found is None:
                waiting[key] = job
            else:
                self._take(key, found)
        names = list(waiting)
        new = list(waiting.values())

        def each(place: int, outcome: Outcome) -> None:
            if self._journal is not None:
                self._journal.add(*new[place], outcome)
            self._take(names[place], outcome)

        if new:
            self._runner.run(new, each)
        return [self._known[key] for key in keys]

    def _take(self, key: tuple[str, int], outcome: Outcome) -> None:
        self._known[key] = outcome
        self.counts[outcome.status] += 1
        if self._tell is not None:
            done = self.counts.total()
            self._tell(Progress(done, max(self._most, done), done - self.counts["value"]))
