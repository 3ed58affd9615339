"""A framework's team is run again by its adapter, through one method."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import adapter
from orchtrace_otel.adapter import Adapter
from orchtrace_otel.errors import ConfigError, MissingDependencyError
from orchtrace_otel.replay import Part, Replayer


class Graph:
    """A framework's team."""


class GraphReplayer:
    """Runs it again."""

    def __init__(self, target, trace, score) -> None:
        self.asked = (target, trace, score)

    def value(self, change, seed) -> float:
        target, _, score = self.asked
        return score((target, len(change.without)))


class GraphAdapter(Adapter):
    name = "graphs"
    extra = "graphs"
    module = "graphs"
    requires: ClassVar[dict[str, str]] = {}

    def instrument(self) -> None:
        """Nothing to put in."""

    def uninstrument(self) -> None:
        """Nothing to take out."""

    def replayer(self, target, trace, score):
        return GraphReplayer(target, trace, score) if isinstance(target, Graph) else None


class PlainAdapter(GraphAdapter):
    """One that replays nothing."""

    replayer = Adapter.replayer


@pytest.fixture(autouse=True)
def installed(monkeypatch) -> None:
    """Three adapters: one that is not usable, one without replays, one that knows graphs."""
    kinds = {"absent": None, "plain": PlainAdapter(), "graphs": GraphAdapter()}

    def load(name: str) -> Adapter:
        if kinds[name] is None:
            raise MissingDependencyError
        return kinds[name]

    monkeypatch.setattr(adapter, "registered", lambda: dict.fromkeys(kinds, SimpleNamespace()))
    monkeypatch.setattr(adapter, "load", load)


def test_the_adapter_that_knows_a_team_runs_it_again(trace) -> None:
    """It is given the team, the recorded run and the caller's score, and asked for values."""
    graph = Graph()

    def score(result) -> float:
        target, taken_out = result
        assert target is graph
        return 1.0 - 0.4 * taken_out

    player = Part("agent", "critic")
    found = orchtrace.counterfactual(trace, graph, [player], score=score, replays=4)
    assert found[player].value == pytest.approx(0.4)


def test_a_team_that_nobody_knows_is_refused(trace) -> None:
    """The message says what could have been given."""
    with pytest.raises(ConfigError, match="a team that an installed adapter can run again"):
        orchtrace.counterfactual(trace, object(), [Part("agent", "a")], score=float)


def test_a_replayer_is_taken_as_it_is(trace) -> None:
    """Anything with the one method will do."""
    replayer = GraphReplayer(Graph(), trace, lambda result: float(result[1]))
    assert isinstance(replayer, Replayer)
    player = Part("agent", "a")
    assert orchtrace.counterfactual(trace, replayer, [player], replays=4)[player].value == -1.0
