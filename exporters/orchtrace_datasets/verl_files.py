"""Files of verl: Parquet whose messages have the keys that some message has, and no others.

Chat templates ask whether a message has `tool_calls`, and a column that is there for all
rows is there for all messages. Which keys there are is known only at the end, so rows
wait in a file until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from orchtrace_otel.datasets.files import JsonLines, ParquetRows
from orchtrace_otel.tables.arrow import pyarrow

if TYPE_CHECKING:
    from pathlib import Path

Json: TypeAlias = dict[str, Any]

_ALWAYS: Final = ("role", "content")


class VerlRows:
    """Takes rows of prompts, or of rollouts, and makes a file of Parquet of them when it closes."""

    def __init__(self, folder: Path, split: str) -> None:
        self._file = folder / f"{split}.parquet"
        self._waiting = folder / f".{split}.waiting"
        self._lines = JsonLines(self._waiting)
        self._columns: set[str] = set()
        self._keys: set[str] = set(_ALWAYS)

    def write(self, text: str) -> None:
        """Take a row."""
        row: Json = orjson.loads(text)
        self._columns |= row.keys()
        for message in row.get("prompt", ()):
            self._keys |= message.keys()
        self._lines.write(text)

    def close(self) -> None:
        """Put everything down."""
        self._lines.close()
        schema = _prompts(self._keys) if "prompt" in self._columns else _rollouts()
        fields = [field for field in schema if field.name in self._columns]
        rows = ParquetRows(self._file, pyarrow().schema(fields))
        try:
            with self._waiting.open("rb") as lines:
                for line in lines:
                    rows.write(line.decode())
        finally:
            rows.close()
            self._waiting.unlink()


def _prompts(keys: set[str]) -> Any:
    pa: Any = pyarrow()
    text, texts = pa.string(), pa.list_(pa.string())
    function = pa.struct({"name": text, "arguments": text})
    call = pa.struct({"id": text, "type": text, "function": function})
    parts = {key: pa.list_(call) if key == "tool_calls" else text for key in sorted(keys)}
    info = {
        "index": pa.int64(),
        "split": text,
        "task_id": text,
        "agent": text,
        "role": text,
        "tools": text,
        "logged_completions": texts,
        "logged_rewards": pa.list_(pa.float64()),
        "run_ids": texts,
        "turn_ids": texts,
    }
    return pa.schema(
        {
            "data_source": text,
            "prompt": pa.list_(pa.struct(parts)),
            "ability": text,
            "agent_name": text,
            "reward_model": pa.struct({"style": text, "ground_truth": text}),
            "extra_info": pa.struct(info),
            **_lineage(),
        }
    )


def _rollouts() -> Any:
    pa: Any = pyarrow()
    text, ids, whole = pa.string(), pa.list_(pa.int32()), pa.int64()
    told = {
        "uid": text,
        "global_steps": whole,
        "min_global_steps": whole,
        "max_global_steps": whole,
        **dict.fromkeys(("task_id", "agent", "instance", "role", "parent_agent"), text),
        **dict.fromkeys(("reward_component", "reward_unit", "stop_reason"), text),
        "turn_ids": pa.list_(text),
    }
    return pa.schema(
        {
            "prompt_ids": ids,
            "response_ids": ids,
            "response_mask": ids,
            "response_logprobs": pa.list_(pa.float64()),
            "reward_score": pa.float64(),
            "num_turns": whole,
            "metrics": pa.struct({"generate_sequences": pa.float64()}),
            "extra_fields": pa.struct(told),
            **_lineage(),
        }
    )


def _lineage() -> dict[str, Any]:
    pa: Any = pyarrow()
    text = pa.string()
    return {"run_id": text, "turn_id": text, "weight": pa.float64(), "label_missing": text}
