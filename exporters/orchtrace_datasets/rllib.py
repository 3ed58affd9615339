"""`rllib`: decisions as the columns that RLlib's offline data reads, a row a step.

The columns are those of `OfflinePreLearner` (Ray 2.60): names of ours would become
outputs of a model there, so that what else is known stands in `infos`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import orjson

from orchtrace_datasets.decisions import OfDecisions
from orchtrace_datasets.episodes import Episodes, Space
from orchtrace_otel.datasets.files import ParquetRows
from orchtrace_otel.tables.arrow import pyarrow

if TYPE_CHECKING:
    from orchtrace_otel.datasets.files import Sink

Json: TypeAlias = dict[str, Any]


class Rllib(OfDecisions):
    """One row a decision; all of a run have its `eps_id`, one decider stands for all agents."""

    name: ClassVar[str] = "rllib"
    about: ClassVar[str] = "RLlib's offline data (Ray 2.60): columns, a row a decision"

    def __init__(self) -> None:
        self._space = Space()

    def sink(self, folder: Path, split: str) -> Sink:
        """Return what writes a split as one Parquet file."""
        return _Columns(folder, split, self._space)


def schema() -> Any:
    """Return the Arrow schema of the rows."""
    pa: Any = pyarrow()
    infos = {
        **dict.fromkeys(("agent", "decision_id", "policy_version", "task_id"), pa.string()),
        "weight": pa.float64(),
        "action_mask": pa.list_(pa.int8()),
    }
    seen = pa.list_(pa.float32())
    columns = {
        **dict.fromkeys(("eps_id", "agent_id", "module_id"), pa.string()),
        "t": pa.int64(),
        "obs": seen,
        "new_obs": seen,
        "actions": pa.int64(),
        "action_logp": pa.float32(),
        "rewards": pa.float32(),
        "terminateds": pa.bool_(),
        "truncateds": pa.bool_(),
        "infos": pa.struct(infos),
    }
    return pa.schema(list(columns.items()))


class _Columns(Episodes):
    """Writes rows of `schema`."""

    def put(self, episodes: Iterator[Json]) -> None:
        """Write all steps of all episodes, an episode after the other."""
        rows = ParquetRows(self.folder / f"{self.split}.parquet", schema())
        try:
            for episode in episodes:
                for row in self._rows(episode):
                    rows.write(orjson.dumps(row).decode())
        finally:
            rows.close()

    def _rows(self, episode: Json) -> Iterator[Json]:
        space, steps = self.space, episode["steps"]
        seen = [space.vector(one) for one in (*(step["seen"] for step in steps), episode["end"])]
        for place, step in enumerate(steps):
            is_last = place + 1 == len(steps)
            chance = step["chance"]
            yield {
                "eps_id": episode["run_id"],
                "agent_id": "orchestrator",
                "module_id": "default_policy",
                "t": place,
                "obs": seen[place],
                "new_obs": seen[place + 1],
                "actions": space.actions[step["action"]],
                "action_logp": None if chance is None else math.log(chance),
                "rewards": step["reward"],
                "terminateds": is_last and episode["terminated"],
                "truncateds": is_last and episode["truncated"],
                "infos": {
                    "agent": step["agent"],
                    "decision_id": step["id"],
                    "policy_version": step["policy_version"],
                    "task_id": episode["task_id"],
                    "weight": episode["weight"],
                    "action_mask": space.mask(step["legal"]),
                },
            }
