"""Application to Rotel to `orchtrace collect`: what is stored is what was traced inline.

Each example runs once, the demo over both protocols; `make test-faults` runs all over both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from orchtrace_otel import otlp
from tests.collecting import as_stored, collecting
from tests.e2e.rotel import ABSENT, Chain, assert_stored, binary, forwarding
from tests.needs import lacking
from tests.unit.dialects.stories import TELLERS, request

pytestmark = [
    pytest.mark.skipif(binary() is None, reason=ABSENT),
    pytest.mark.timeout(180),
]

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
TRACED = Path(__file__).with_name("traced.py")

FRAMEWORKS = ("autogen", "langgraph", "plain")
WAYS = ("http", "grpc")
EACH = list(zip(FRAMEWORKS, ("grpc", "http", "grpc"), strict=True))
if "ORCHTRACE_E2E_ALL" in os.environ:
    EACH = [(framework, way) for framework in FRAMEWORKS for way in WAYS]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    store = tmp_path_factory.mktemp("store")
    with (
        collecting(store, "--grace", "0.3") as collector,
        forwarding(collector.url) as ways_in,
    ):
        yield Chain(ways_in, collector)


def run(*arguments: str, cwd: Path) -> str:
    """Run a Python script that must end well and say nothing on stderr."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ORCHTRACE_"))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        env=kept,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def inline(file: Path) -> dict[str, dict[str, Any]]:
    """What a process wrote of its own runs, before any late reward."""
    documents = map(orjson.loads, file.read_bytes().splitlines())
    return {
        document["trace_id"]: document
        for document in documents
        if document["events"][-1]["revision"] == 0
    }


@pytest.mark.parametrize(("framework", "way"), EACH)
def test_every_example_collected_is_the_example_inline(
    framework: str, way: str, chain: Chain, tmp_path: Path
) -> None:
    """Every event, edge, reward and measure of every run, over one protocol or the other.

    Of examples that can run here; what one lacks is told where examples are run alone.
    """
    file = tmp_path / "inline.jsonl"
    scripts = [
        str(path) for path in sorted(EXAMPLES.glob(f"{framework}_*.py")) if not lacking(path.name)
    ]
    run(str(TRACED), chain.ways_in[way], str(file), framework, *scripts, cwd=tmp_path)
    found = inline(file)
    assert len(found) >= len(scripts)
    assert_stored(chain.collector, found)


def test_no_example_is_left_out() -> None:
    """Examples are told by their framework's name."""
    prefixes = {path.name.partition("_")[0] for path in EXAMPLES.glob("*.py")}
    assert prefixes == set(FRAMEWORKS)


@pytest.mark.parametrize("way", WAYS)
def test_the_demo_collected_is_the_demo_inline(way: str, chain: Chain, tmp_path: Path) -> None:
    """LangGraph's team, AutoGen's and the one of plain functions, by the command itself."""
    url = chain.ways_in[way].partition(":")[2]
    os_protocol = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} if way == "grpc" else {}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ORCHTRACE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "orchtrace_otel.cli", "demo", "--out", str(tmp_path), "--otlp", url],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        env=kept | os_protocol,
    )
    assert done.returncode == 0, done.stderr
    found = inline(tmp_path / "traces.jsonl")
    assert {document["system"] for document in found.values()} >= {"langgraph", "autogen", "python"}
    assert_stored(chain.collector, found)


@pytest.mark.parametrize("dialect", TELLERS)
def test_runs_that_others_told_arrive_as_runs(dialect: str, chain: Chain, tmp_path: Path) -> None:
    """Agents that only another instrumentation traces: the collector finds the same run."""
    spans = TELLERS[dialect]()
    for span in spans:
        span.trace = f"{list(TELLERS).index(dialect) + 1:032x}"
    sent = request(spans)
    (expected,) = otlp.traces(otlp.read_json(sent))
    url = chain.ways_in["http"].removeprefix("otlp:")
    told = httpx.post(
        f"{url}/v1/traces", content=sent, headers={"content-type": "application/json"}
    )
    assert told.status_code == 200
    assert_stored(chain.collector, as_stored([expected]))
