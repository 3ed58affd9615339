"""`minari`: decisions as a data set of Minari, which d3rlpy and others read.

The layout is that of Minari's own Parquet storage (0.5): a folder an episode, the last
row of which holds the observation after the last step. `MINARI_DATASETS_PATH` set to the
data set's folder, `minari.load_dataset("train-v0")` finds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import orjson

from orchtrace_datasets.decisions import OfDecisions
from orchtrace_datasets.episodes import Episodes, Space
from orchtrace_otel.tables.arrow import pyarrow

if TYPE_CHECKING:
    from orchtrace_otel.datasets.files import Sink

Json: TypeAlias = dict[str, Any]

_VERSION: Final = "0.5.3"
"""Of Minari, whose layout this is; later ones read it."""


class Minari(OfDecisions):
    """One episode a run: vectors seen, numbers done, rewards, and infos of each decision."""

    name: ClassVar[str] = "minari"
    about: ClassVar[str] = "Minari (0.5.4), offline RL of decisions: an episode a run"

    def __init__(self) -> None:
        self._space = Space()

    def sink(self, folder: Path, split: str) -> Sink:
        """Return what writes a split as `<split>-v0`."""
        return _Storage(folder, split, self._space)


class _Storage(Episodes):
    """Writes what `minari.MinariDataset` reads."""

    def put(self, episodes: Iterator[Json]) -> None:
        """Write each episode, then what is known of all."""
        data = self.folder / f"{self.split}-v0" / "data"
        data.mkdir(parents=True)
        count = steps = 0
        for episode in episodes:
            self._put_one(data / str(count), count, episode)
            count += 1
            steps += len(episode["steps"])
        width = len(self.space.observations)
        size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
        facts = {
            "dataset_id": f"{self.split}-v0",
            "minari_version": _VERSION,
            "data_format": "parquet",
            "jpeg_encoding": False,
            "total_episodes": count,
            "total_steps": steps,
            "dataset_size": round(size / 1e6, 1),
            # What JSON calls null Minari would not read; these are the bounds of 64 bits.
            "observation_space": _space(
                type="Box",
                dtype="float64",
                shape=[width],
                low=[-1.7976931348623157e308] * width,
                high=[1.7976931348623157e308] * width,
            ),
            "action_space": _space(
                type="Discrete", dtype="int64", start=0, n=len(self.space.actions)
            ),
            "description": "Decisions of agent teams, made by orchtrace-otel.",
            "observation_names": self.space.observations,
            "action_names": tuple(self.space.actions),
        }
        (data / "metadata.json").write_bytes(orjson.dumps(facts))

    def _put_one(self, folder: Path, number: int, episode: Json) -> None:
        folder.mkdir()
        steps = episode["steps"]
        facts = {
            "id": number,
            "total_steps": len(steps),
            **{name: episode[name] for name in ("run_id", "task_id", "weight")},
        }
        (folder / "metadata.json").write_bytes(orjson.dumps(facts))
        pyarrow("parquet").write_table(self._table(episode, steps), folder / "part-0.parquet")

    def _table(self, episode: Json, steps: list[Json]) -> Any:
        """Return the rows of an episode: one a step, and one for what was seen at its end."""
        pa: Any = pyarrow()
        space = self.space
        width, actions = len(space.observations), len(space.actions)
        rows = [
            {
                "observations": space.vector(step["seen"]),
                "actions": space.actions[step["action"]],
                "rewards": step["reward"],
                "terminations": is_last and episode["terminated"],
                "truncations": is_last and episode["truncated"],
                "infos": {
                    "behavior_prob": math.nan if step["chance"] is None else step["chance"],
                    "policy_version": step["policy_version"] or "",
                    "agent": step["agent"] or "",
                    "decision_id": step["id"],
                    "action_mask": space.mask(step["legal"]),
                },
            }
            for step, is_last in _marked(steps)
        ]
        rows.append(
            {
                **_END,
                "observations": space.vector(episode["end"]),
                "infos": {**_END["infos"], "action_mask": [0] * actions},
            }
        )
        infos = pa.struct(
            {
                "behavior_prob": pa.float64(),
                **dict.fromkeys(("policy_version", "agent", "decision_id"), pa.string()),
                "action_mask": pa.list_(pa.int8(), actions),
            }
        )
        schema = {
            "observations": pa.list_(pa.float64(), width),
            "actions": pa.int64(),
            "rewards": pa.float64(),
            "terminations": pa.bool_(),
            "truncations": pa.bool_(),
            "infos": infos,
        }
        return pa.Table.from_pylist(rows, schema=pa.schema(list(schema.items())))


_END: Final[Json] = {
    "actions": 0,
    "rewards": 0.0,
    "terminations": False,
    "truncations": False,
    "infos": {"behavior_prob": math.nan, "policy_version": "", "agent": "", "decision_id": ""},
}


def _marked(steps: list[Json]) -> Iterator[tuple[Json, bool]]:
    """Return each step, and whether it is the last."""
    for place, step in enumerate(steps, 1):
        yield step, place == len(steps)


def _space(**facts: Any) -> str:
    return orjson.dumps(facts).decode()
