"""Rotel, a collector in a wheel, as a process between an application and `orchtrace collect`."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson

from tests.collecting import Collecting, at_first, eventually, free_port, stored


class Chain(NamedTuple):
    """Rotel and the collector behind it."""

    ways_in: dict[str, str]
    collector: Collecting


ABSENT = "rotel has no wheel for this platform, or lacks the shared library of this Python"


@cache
def binary() -> Path | None:
    """Return where Rotel is installed; None where it is not, or cannot run."""
    found = importlib.util.find_spec("rotel")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).with_name("rotel-agent")
    return path if path.exists() and _runs(path) else None


def _runs(path: Path) -> bool:
    asked = [str(path), "--version"]
    done = subprocess.run(asked, capture_output=True, check=False, timeout=30, env=_environment())
    return done.returncode == 0


def _environment() -> dict[str, str]:
    """This process's, with libpython, which Rotel is linked with, wherever this Python has it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ROTEL_"))}
    folders = (sysconfig.get_config_var("LIBDIR"), os.environ.get("LD_LIBRARY_PATH"))
    return kept | {"LD_LIBRARY_PATH": ":".join(filter(None, folders))}


@contextmanager
def forwarding(target: str, *options: str, protocol: str = "http") -> Iterator[dict[str, str]]:
    """Run Rotel for the block; yield its ways in as our exporters name them, and its log.

    Args:
        target: URL of the OTLP receiver that it forwards to.
        options: More of its options.
        protocol: What it speaks there, `http` or `grpc`.
    """
    agent = binary()
    assert agent is not None
    http, grpc = free_port(), free_port()
    log = tempfile.NamedTemporaryFile(prefix="rotel-", suffix=".log")  # noqa: SIM115 - closed below
    process = subprocess.Popen(
        [
            *(str(agent), "start", "--exporter", "otlp"),
            *("--otlp-http-endpoint", f"127.0.0.1:{http}"),
            *("--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"),
            *("--otlp-exporter-endpoint", target, "--otlp-exporter-protocol", protocol),
            *("--otlp-exporter-retry-initial-backoff", "100ms"),
            *("--otlp-exporter-retry-max-backoff", "500ms", "--batch-timeout", "50ms"),
            *options,
        ],
        stdout=log,
        stderr=log,
        env=_environment(),
    )
    try:
        eventually(lambda: _listens(http) and _listens(grpc))
        yield {
            "http": f"otlp:http://127.0.0.1:{http}",
            "grpc": f"otlp-grpc:http://127.0.0.1:{grpc}",
            "log": log.name,
        }
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def has_dropped(ways_in: dict[str, str]) -> bool:
    """Whether Rotel says that it gave up what it had taken.

    It sends again what was refused or found nobody, but not what was on a connection that
    is reset. A collector that ends closes none with calls that have arrived, as far as it
    can know: of some 150 that did so none had Rotel drop anything.
    """
    return "dropping data" in Path(ways_in["log"]).read_text()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def assert_stored(
    collector: Collecting, expected: dict[str, dict[str, Any]], within_s: float = 20
) -> None:
    """Wait for these runs; each is there once, and equal in every event, edge and reward."""
    assert expected
    found: dict[str, dict[str, Any]] = {}

    def are_equal() -> bool:
        try:
            newest = stored(collector.store)
        except orjson.JSONDecodeError:  # a line that is being written
            return False
        found.update((run_id, at_first(newest[run_id])) for run_id in expected if run_id in newest)
        return found == expected

    try:
        eventually(are_equal, within_s)
    except AssertionError:
        raise AssertionError(_differences(collector, found, expected)) from None


def _differences(
    collector: Collecting, found: dict[str, dict[str, Any]], expected: dict[str, dict[str, Any]]
) -> str:
    """Say what is missing, what differs in which events, and what the collector counted."""
    lines = [f"{run_id} is missing" for run_id in expected.keys() - found.keys()]
    for run_id, document in found.items():
        if document != expected[run_id]:
            keys = [key for key in document if document[key] != expected[run_id].get(key)]
            flags = document["events"][-1]["flags"]
            lines.append(f"{run_id} differs in {keys}, flagged {flags}")
    counted = httpx.get(f"{collector.url}/metrics").text.splitlines()
    return "\n".join([*lines, *(line for line in counted if not line.startswith("#"))])
