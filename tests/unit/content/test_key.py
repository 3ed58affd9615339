"""The folder that processes share, and the key in it."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.content.key import key_of

if TYPE_CHECKING:
    from pathlib import Path


def test_processes_that_share_a_store_share_its_key(tmp_path: Path) -> None:
    """The first one makes it, for its owner's eyes alone; all others read it."""
    store = tmp_path / "new" / "store"
    key = key_of(store)
    assert len(key) == 64
    assert key_of(store) == key
    assert stat.S_IMODE((store / "key").stat().st_mode) == 0o600
    assert [path.name for path in store.iterdir()] == ["key"]


def test_a_configured_store_keys_the_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of one task get one task id in every process that uses the store."""
    monkeypatch.setenv("ORCHTRACE_STORE", str(tmp_path))
    monkeypatch.delenv("ORCHTRACE_KEY", raising=False)
    try:
        orchtrace.configure(tracer_provider=TracerProvider(shutdown_on_exit=False), exporters=[])
        hashed = content.task_id(("who?",), {})
        assert hashed is not None
        content.use_key(key_of(tmp_path))
        assert content.task_id(("who?",), {}) == hashed
    finally:
        orchtrace.shutdown()
        content.use_key(None)


def test_a_store_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    """What stands in the way is told where the process is set up."""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file")
    with pytest.raises(orchtrace.ConfigError, match="must be a folder that can be written"):
        key_of(in_the_way)
