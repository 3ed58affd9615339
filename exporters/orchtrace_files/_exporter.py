"""The exporter of finished traces: which files a target means, and what goes into them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import orjson

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.lines import LineFile
from orchtrace_otel.noted import Losses
from orchtrace_otel.schema import dump

if TYPE_CHECKING:
    from orchtrace_otel.model import Reward, Trace

DEFAULT_MAX_BYTES: Final = 256 * 2**20
_OTHER_FILES: Final = (".json", ".ndjson", ".gz")
"""Ends of names that mean files, and would become folders."""


class JsonlExporter:
    """Writes each finished trace as one line of JSON, and late rewards beside it.

    A line is in the operating system's hands when `export` returns: a killed process
    loses only the traces that it had not exported yet. What cannot be written raises
    `OSError`, and the pipeline counts it and goes on.

    What was lost is written down as soon as there is room again, for `orchtrace doctor`.

    Attributes:
        traces: The file of traces.
        losses: The file of what could not be written; absent where all could.
        rewards: The file of late rewards, each with its `run_id`; it comes into being
            with the first one.

    Example:
        >>> import tempfile
        >>> from orchtrace_otel.model import Reward
        >>> folder = tempfile.mkdtemp()
        >>> exporter = open_jsonl(folder)
        >>> exporter.amend("r-1", Reward(id="a", component="correctness", value=1.0))
        >>> exporter.rewards.path.name
        'rewards.jsonl'
    """

    def __init__(self, traces: Path, rewards: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.traces = LineFile(traces, max_bytes)
        self.rewards = LineFile(rewards, max_bytes)
        noted = rewards.with_name(rewards.name.replace("rewards", "losses"))
        self.losses = Losses(noted, "lines", max_bytes)

    def export(self, trace: Trace) -> None:
        """Append `trace`.

        Raises:
            OSError: If it could not be written; no part of it was.
        """
        self._append(self.traces, dump(trace))

    def export_line(self, line: bytes) -> tuple[Path, int]:
        """Append a trace that is written already, as `schema.dump` writes it.

        Returns:
            The file, and where in it the line begins.

        Raises:
            OSError: If it could not be written; no part of it was. Whoever calls has the line
                still, so that it is no loss.
        """
        return self.traces.path, self.traces.append(line)

    def amend(self, run_id: str, reward: Reward) -> None:
        """Append a reward that came after its run was exported.

        Raises:
            OSError: If it could not be written; no part of it was.
        """
        record = {"run_id": run_id, **reward.to_dict()}
        self._append(self.rewards, orjson.dumps(record))

    def flush(self, timeout_s: float = 30.0) -> None:
        """Do nothing: a line is written when `export` returns."""

    def shutdown(self) -> None:
        """Write down what was lost; no file is kept open."""
        with suppress(OSError):
            self.losses.own_up()

    def complaints(self) -> list[str]:
        """Say what was lost here, in this process or an earlier one, for `orchtrace doctor`."""
        return self.losses.complaints()

    def _append(self, file: LineFile, line: bytes) -> int:
        try:
            start = file.append(line)
        except OSError as error:
            self.losses.note(error.strerror or type(error).__name__)
            raise
        with suppress(OSError):  # the line is written, and the loss told with a later one
            self.losses.own_up()
        return start


def open_jsonl(target: str) -> JsonlExporter:
    """Open what stands behind `jsonl:` in a list of exporters.

    Args:
        target: A file whose name ends in `.jsonl`, or a folder, which is created, for
            `traces.jsonl` in it. `?max_bytes=N` behind it sets the size at which a file
            is renamed away and a new one begun.

    Raises:
        ConfigError: If the target says something else, or cannot be written.
    """
    place, _, query = target.partition("?")
    max_bytes = _max_bytes(target, query)
    if not place or "://" in place or place.endswith(_OTHER_FILES):
        scheme, _, is_url = place.partition("://")
        came = f"a URL of {scheme}" if is_url else repr(target)  # it may hold a password
        msg = (
            f"jsonl: needs a folder or a file ending in .jsonl, got {came}; say jsonl:traces/, "
            "or for a URL parquet: or http:"
        )
        raise ConfigError(msg)
    path = Path(place).expanduser().absolute()
    if path.suffix == ".jsonl" and not place.endswith("/"):
        exporter = JsonlExporter(path, path.with_name(f"{path.stem}.rewards.jsonl"), max_bytes)
    else:
        exporter = JsonlExporter(path / "traces.jsonl", path / "rewards.jsonl", max_bytes)
    try:
        exporter.traces.path.parent.mkdir(parents=True, exist_ok=True)
        exporter.traces.check()
    except OSError as error:
        msg = (
            f"jsonl: must be able to write {str(exporter.traces.path)!r}, "
            f"got {error.strerror!r}; give a place that this process may write"
        )
        raise ConfigError(msg) from error
    return exporter


def _max_bytes(target: str, query: str) -> int:
    given = dict(parse_qsl(query, keep_blank_values=True))
    text = given.pop("max_bytes", str(DEFAULT_MAX_BYTES))
    if given or not text.isdecimal() or int(text) == 0:
        msg = (
            "behind ? a jsonl: target takes max_bytes and a whole number above 0, "
            f"got {target!r}; say for example jsonl:traces/?max_bytes=1000000"
        )
        raise ConfigError(msg)
    return int(text)
