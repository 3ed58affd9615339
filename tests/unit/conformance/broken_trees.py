"""Adapters whose tree of a run is wrong, with the check that each must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.spans import Activation, Scope
from tests.unit.conformance.crew import Agent, Answer, Model
from tests.unit.conformance.crew_adapter import CrewAdapter, Opened, Playing, Token
from tests.unit.conformance.crew_kit import Broken


class BeginsRuns(CrewAdapter):
    """Opens a run for each agent as well."""

    def parent(self, playing: Playing) -> Activation:
        run = spans.start_run("again")
        assert run is not None
        run.close()
        return playing.activation


class SpawnsTwice(CrewAdapter):
    """Opens each agent below another opening of the same agent."""

    @guarded
    def open_agent(self, agent: Agent) -> Opened | None:
        opened = super().open_agent(agent)
        if opened is None:
            return None
        playing, activation = opened
        activation.close()
        return playing, spans.open_activation(playing.activation, agent.name)


class ForgetsNesting(CrewAdapter):
    """Opens what is inside an agent below the run's root."""

    def current(self) -> Activation | None:
        current = spans.current()
        return None if current is None else current.run.root


class ForgetsCauses(CrewAdapter):
    """Opens every agent because of the crew."""

    def causes(self, team: Activation, ended: list[Mark]) -> list[Edge]:
        return [("causal", team.opened)]


class JoinsHalf(CrewAdapter):
    """Leaves a branch out of the aggregate."""

    def causes(self, team: Activation, ended: list[Mark]) -> list[Edge]:
        if len(ended) == 1:
            return super().causes(team, ended)
        merged = spans.instant(team, "aggregate", edges=[("aggregate", ended[0])])
        return [("causal", merged), ("causal", ended[1])]


class ChainsSiblings(CrewAdapter):
    """Takes what ended last for the cause of what comes next."""

    @guarded
    def open_agent(self, agent: Agent) -> Opened | None:
        opened: Any = super().open_agent(agent)
        playing, activation = opened
        if playing.ended:
            edges = [("causal", playing.ended[-1])]
            activation.close()
            activation = spans.open_activation(playing.activation, agent.name, edges=edges)
        return playing, activation


class KeepsToolsOut(CrewAdapter):
    """Attaches no context around the body of a tool."""

    def enter_tool(self, scope: Scope | None) -> Token | None:
        return None


class KeepsAgentsOut(CrewAdapter):
    """Attaches no context around an agent's code."""

    def enter(self, opened: Any) -> Token | None:
        return None


class CountsTwice(CrewAdapter):
    """Opens two turns for each call of a model."""

    @guarded
    def close_turn(self, turn: Any, result: Answer) -> None:
        super().close_turn(turn, result)
        super().close_turn(spans.open_turn(turn.parent, "scripted"), result)


class AsksTwice(CrewAdapter):
    """Calls the host's model a second time."""

    def ask(self, wrapped: Callable[..., Answer], model: Model, args: Any, kwargs: Any) -> Answer:
        wrapped(*args, **kwargs)
        return super().ask(wrapped, model, args, kwargs)


class ForgetsTools(CrewAdapter):
    """Does not tell the caller's flow that a tool came back."""

    @guarded
    def close_tool(self, scope: Scope | None, error: BaseException | None) -> None:
        if scope is not None:
            scope.close(error=error)


class StopsForNoReason(CrewAdapter):
    """Ends the run because of nothing that was done in it."""

    def close_crew(self, playing: Playing | None, error: BaseException | None) -> None:
        if playing is not None:
            playing.ended = []
        super().close_crew(playing, error)


BROKEN: list[Broken] = [
    ("test_a_run_is_one_root_and_one_trace", BeginsRuns, "must give one trace, came 2"),
    ("test_an_agent_is_an_activation_of_the_team", SpawnsTwice, "one activation of 'worker'"),
    ("test_parents_follow_the_nesting_of_agents", ForgetsNesting, "'inner' below 'outer'"),
    ("test_what_follows_has_its_cause", ForgetsCauses, "because of 'first' alone"),
    ("test_what_follows_has_its_cause", StopsForNoReason, "must stop because of 'second'"),
    ("test_a_join_is_an_aggregate_with_an_edge_a_branch", JoinsHalf, "from each of 'left'"),
    ("test_branches_do_not_cause_each_other", ChainsSiblings, "because of a sibling"),
    ("test_a_tool_call_has_its_result_and_is_current_in_the_tool", KeepsToolsOut, "current in"),
    ("test_a_tool_call_has_its_result_and_is_current_in_the_tool", ForgetsTools, "to what follows"),
    ("test_a_users_span_nests_below_the_agents", KeepsAgentsOut, "right below the activation"),
    ("test_a_turn_counts_its_tokens_once", CountsTwice, "one turn of 'worker'"),
    ("test_a_turn_counts_its_tokens_once", AsksTwice, "must call its model once"),
]
