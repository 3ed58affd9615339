"""Episodes as vectors: which place which feature and which action has, known when all are seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = dict[str, Any]


class Space:
    """What is seen and done in a data set, all its splits together.

    A feature that not every step has gets a second number, `has:NAME`, which is 1 where
    it was seen; where it was not, both are 0.

    Example:
        >>> space = Space()
        >>> space.take({"steps": [{"seen": {"t": 1.0, "drafts": 2.0}, "legal": ["go", "stop"]},
        ...                       {"seen": {"t": 2.0}, "legal": ["go"]}]})
        >>> space.observations
        ('drafts', 'has:drafts', 't')
        >>> space.vector({"t": 2.0}), space.mask(["stop"])
        ([0.0, 0.0, 2.0], [0, 1])
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._done: set[str] = set()
        self._steps = 0
        self._forget()

    def _forget(self) -> None:
        self._observations: tuple[str, ...] | None = None
        self._numbers: dict[str, int] | None = None

    def take(self, episode: Json) -> None:
        """Learn of the features and actions of an episode."""
        for step in episode["steps"]:
            self._seen.update(step["seen"].keys())
            self._done.update(step["legal"])
            self._steps += 1
        self._forget()

    @property
    def observations(self) -> tuple[str, ...]:
        """What each number of an observation is."""
        if self._observations is None:
            partly = [f"has:{name}" for name, count in self._seen.items() if count < self._steps]
            self._observations = tuple(sorted([*self._seen, *partly]))
        return self._observations

    @property
    def actions(self) -> Mapping[str, int]:
        """Each action and its number, in order."""
        if self._numbers is None:
            self._numbers = {name: number for number, name in enumerate(sorted(self._done))}
        return self._numbers

    def vector(self, seen: Mapping[str, float]) -> list[float]:
        """Return what was seen as numbers, in the order of `observations`."""
        held = {**{f"has:{name}": 1.0 for name in seen}, **seen}
        return [float(held.get(name, 0.0)) for name in self.observations]

    def mask(self, legal: Collection[str]) -> list[int]:
        """Return 1 for each action that could have been done, in the order of `actions`."""
        return [int(name in legal) for name in self.actions]

    def to_dict(self) -> Json:
        """The names as JSON, in the order of their numbers."""
        return {"observations": self.observations, "actions": tuple(self.actions)}


class Episodes(ABC):
    """Takes the episodes of one split; they become numbers when all are there.

    Args:
        folder: Of the data set; `space.json` in it will say what the numbers mean.
        split: Whose episodes these are.
        space: Shared by all splits.
    """

    def __init__(self, folder: Path, split: str, space: Space) -> None:
        self.folder = folder
        self.split = split
        self.space = space
        self._path = folder / f".{split}.episodes"
        self._file = self._path.open("wb")

    def write(self, text: str) -> None:
        """Take an episode."""
        self.space.take(orjson.loads(text))
        self._file.write(text.encode() + b"\n")

    def close(self) -> None:
        """Put everything down."""
        self._file.close()
        try:
            self.put(self._episodes())
            names = orjson.dumps(self.space.to_dict(), option=orjson.OPT_INDENT_2)
            (self.folder / "space.json").write_bytes(names + b"\n")
        finally:
            self._path.unlink()

    @abstractmethod
    def put(self, episodes: Iterator[Json]) -> None:
        """Write all episodes, of which `space` now knows every feature and action."""

    def _episodes(self) -> Iterator[Json]:
        with self._path.open("rb") as lines:
            for line in lines:
                yield orjson.loads(line)
