"""`orchtrace rewards --explain topology` says what a topology rests on."""

import pytest
from click.testing import CliRunner

from orchtrace_otel.cli.rewards import command
from orchtrace_otel.model import Trace
from orchtrace_otel.testing.world import make_world


def explained(tmp_path, *traces: Trace) -> str:
    """What the command says of traces in a file."""
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(trace.to_json() + "\n" for trace in traces))
    result = CliRunner().invoke(command, [str(path), "--explain", "topology"])
    assert result.exception is None
    return " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("kind", "way"), [("swarm", "handed over"), ("harness", "by tool"), ("debate", "mutual")]
)
def test_it_names_the_kind_and_how_each_activation_came_about(tmp_path, kind, way) -> None:
    """The word, the rule, the counts, and a line an activation."""
    trace = make_world(3, kind).trace
    said = explained(tmp_path, trace)
    count = sum("parent" in event.keys for event in trace.events)
    assert f"topology = {kind}" in said
    assert f"{kind}: {count} of {count} activations were {way}" in said
    assert said.count(way) == 1 + count


def test_a_run_without_a_team_is_explained_too(tmp_path) -> None:
    """There is nothing to count, and no crash."""
    trace = make_world(3, "swarm").trace
    alone = Trace(trace.trace_id, "q", trace.events[:1], costs={"tokens": 0, "wall_clock_s": 0})
    assert "topology = unknown" in explained(tmp_path, alone)
