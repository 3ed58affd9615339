"""`hf`: calls and all that is known of them, as a folder that `datasets.load_dataset` reads.

Parquet with one schema whatever is in it, so that splits and data sets can be put
together. What has no fixed shape (tools, parameters of sampling, rewards) is JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from orchtrace_otel.datasets import Call, Group, Need, Outcome, Writer, of_call
from orchtrace_otel.datasets.files import ParquetRows
from orchtrace_otel.tables.arrow import pyarrow

if TYPE_CHECKING:
    from orchtrace_otel.datasets.files import Sink


class HuggingFace(Writer):
    """One row a call: its record with its content, for whoever trains in a way of their own."""

    name: ClassVar[str] = "hf"
    about: ClassVar[str] = "Hugging Face `datasets`: Parquet and a card, a row a call"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT})
    loses: ClassVar[tuple[str, ...]] = (
        "events that are no calls, and what caused what; the tables have them",
    )

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return a row for each call."""
        for call in group.calls:
            yield of_call(call, _row(call))

    def sink(self, folder: Path, split: str) -> Sink:
        """Return a Parquet file in `data`, where the loader finds the splits by their names."""
        (folder / "data").mkdir(exist_ok=True)
        return ParquetRows(folder / "data" / f"{split}-00000-of-00001.parquet", schema())


def schema() -> Any:
    """Return the Arrow schema of the rows."""
    pa: Any = pyarrow()
    text, number, whole = pa.string(), pa.float64(), pa.int64()
    function = pa.struct({"name": text, "arguments": text})
    tool_call = pa.struct({"id": text, "type": text, "function": function})
    message = {
        **dict.fromkeys(("role", "content", "reasoning_content", "name", "tool_call_id"), text),
        "tool_calls": pa.list_(tool_call),
    }
    messages = pa.list_(pa.struct(message))
    kinds = {
        **dict.fromkeys(("run_id", "turn_id", "task_id", "agent", "instance", "role"), text),
        **dict.fromkeys(("parent_agent", "model", "policy_version", "finish_reason"), text),
        "index": whole,
        "agent_index": whole,
        "prompt": messages,
        "completion": messages,
        "tools": text,
        "sampling": text,
        "prompt_ids": pa.list_(pa.int32()),
        "response_ids": pa.list_(pa.int32()),
        "response_mask": pa.list_(pa.int8()),
        "logprobs": pa.list_(pa.float32()),
        "token_provenance": text,
        "label": number,
        "label_component": text,
        "label_unit": text,
        "label_missing": text,
        "rewards": text,
        "cost": number,
        "weight": number,
    }
    return pa.schema(list(kinds.items()))


_OF_ROW = (
    *("task_id", "agent", "instance", "role", "parent_agent", "model", "finish_reason"),
    *("index", "agent_index", "cost"),
)


def _row(call: Call) -> dict[str, Any]:
    tokens, label = call.tokens, call.label
    rewards = {
        unit: call.row[place]
        for unit, place in (
            ("turn", "rewards"),
            ("agent", "agent_rewards"),
            ("team", "run_rewards"),
        )
        if call.row.get(place)
    }
    return {
        **{name: call.row.get(name) for name in _OF_ROW},
        "policy_version": call.policy_version,
        "prompt": call.prompt,
        "completion": call.completion,
        "tools": _json(call.tools),
        "sampling": _json(dict(call.content.parameters)),
        "prompt_ids": list(tokens.prompt_ids),
        "response_ids": list(tokens.ids),
        "response_mask": list(tokens.mask),
        "logprobs": list(tokens.logprobs),
        "token_provenance": tokens.provenance,
        "label": label.value,
        "label_component": label.component,
        "label_unit": label.unit,
        "rewards": _json(rewards),
    }


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
