"""The Collector's configurations in examples/ hold together, and say what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

REPOSITORY = Path(__file__).parents[2]
FILES = sorted((REPOSITORY / "examples" / "collector").glob("*.yaml"))
PAGE = (REPOSITORY / "docs" / "collector.md").read_text(encoding="utf-8")


def read(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_part_is_defined_and_used(file: Path) -> None:
    """Pipelines name parts that are there, and no part is there for nothing."""
    found = read(file)
    named: dict[str, set[str]] = {"extensions": set(found["service"].get("extensions", ()))}
    for pipeline in found["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            named.setdefault(kind, set()).update(pipeline[kind])
    for kind, names in named.items():
        assert names == set(found.get(kind, {})), kind


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_of_a_run_is_lost_on_purpose(file: Path) -> None:
    """No sampler and no filter stands in front; what is not acknowledged is tried again."""
    found = read(file)
    assert set(found["processors"]) == {"batch"}
    for name, exporter in found["exporters"].items():
        if name.startswith(("otlp/orchtrace", "loadbalancing")):
            otlp = exporter["protocol"]["otlp"] if "protocol" in exporter else exporter
            assert otlp["retry_on_failure"] == {"enabled": True, "max_elapsed_time": "0s"}


def test_the_page_names_every_file_and_no_other() -> None:
    """What the page leads to is there."""
    assert set(re.findall(r"examples/collector/(\w+\.yaml)", PAGE)) == {f.name for f in FILES}


def test_several_collectors_get_whole_traces() -> None:
    """They are told apart by trace id, for spans and for late rewards."""
    found = read(REPOSITORY / "examples" / "collector" / "many.yaml")
    balancing = found["exporters"]["loadbalancing"]
    assert balancing["routing_key"] == "traceID"
    assert {"traces", "logs"} == set(found["service"]["pipelines"])
