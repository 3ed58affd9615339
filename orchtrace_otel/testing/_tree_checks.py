"""Checks of the tree that a run becomes: who is in it, and what caused what."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from orchtrace_otel import attributes as a
from orchtrace_otel.testing._kit import check
from orchtrace_otel.testing._recordings import USER_SPAN
from orchtrace_otel.testing._shapes import holders, leading_to, openings, triggers
from orchtrace_otel.testing._teams import TOKENS, AdapterTeams

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class TreeChecks(AdapterTeams, ABC, kit=True):
    """What a team becomes."""

    @check
    def test_a_run_is_one_root_and_one_trace(self) -> None:
        """A run has one root, one OTel trace, and gives one finished trace of the system.

        Troubleshooting: start_run must be called where no activation is current only; the
        code of agents must run with the activation attached, or they begin runs themselves.
        """
        name = self.make_adapter().name
        for one, trace in self._traces():
            found = [s for s in one.captured.spans if s.name != USER_SPAN]
            roots = [s.name for s in found if s.parent is None]
            self.must(len(roots) == 1, f"{one.name} must have one root", roots)
            ids = {s.context.trace_id for s in one.captured.spans if s.context is not None}
            self.must(len(ids) == 1, f"{one.name} must be one OTel trace", len(ids))
            self.must(trace.system == name, f"{one.name} must be of system {name!r}", trace.system)

    @check
    def test_an_agent_is_an_activation_of_the_team(self) -> None:
        """The agents of a team have an activation each, right below the team's own.

        Troubleshooting: open_activation takes the activation that contains the agent as its
        parent; `run.root` is right for agents of the outermost team only.
        """
        for one, trace in self._traces("single", "handing_off", "fanning_out"):
            names = {"single": ("worker",), "handing_off": ("first", "second")}
            for agent in names.get(one.scenario, ("left", "right", "merge")):
                opened = openings(trace, agent)
                must = f"{one.name} must have one activation of {agent!r}"
                self.must(len(opened) == 1, must, [event.get("to") for event in opened])
                above = holders(trace, opened[0])
                must = f"{one.name} must have {agent!r} right below the team's activation"
                self.must(len(above) == 1, must, above)

    @check
    def test_parents_follow_the_nesting_of_agents(self) -> None:
        """An agent inside an agent is an activation below that agent's.

        Troubleshooting: the parent must be the activation current where the inner agent is
        called, and the inner team must open no run of its own.
        """
        self.skip_unless("can_nest", "an agent cannot contain a team there")
        for one, trace in self._traces("nested"):
            opened = openings(trace, "inner")
            self.must(len(opened) == 1, f"{one.name} must have one activation of 'inner'", opened)
            above = holders(trace, opened[0])
            must = f"{one.name} must have 'inner' below 'outer' below the team"
            self.must("outer" in above[:-1], must, above)

    @check
    def test_what_follows_has_its_cause(self) -> None:
        """The second agent's opening follows from the first one alone, the stop from the second.

        Troubleshooting: give open_activation the edge `("causal", first.closed)`, or the mark
        of the decision, delegation or hand-off that stands between them.
        """
        self.skip_unless("can_hand_off", "one agent cannot follow another there")
        for one, trace in self._traces("handing_off"):
            for opened in openings(trace, "second"):
                found = triggers(trace, opened)
                must = f"{one.name} must open 'second' because of 'first' alone"
                self.must(found == {"first"}, must, sorted(found))
            for event in trace.events:
                if event.verb == "delegate" and not event.id.endswith(".open"):
                    ends = (event.agent, event.get("to"))
                    must = f"{one.name} must delegate from 'first' to 'second'"
                    self.must(ends == ("first", "second"), must, ends)
            if trace.stop is not None:
                before = {e.agent for e in leading_to(trace, trace.stop) if e.verb == "return"}
                must = f"{one.name} must stop because of 'second'"
                self.must("second" in before, must, sorted(before))

    @check
    def test_a_join_is_an_aggregate_with_an_edge_a_branch(self) -> None:
        """Where branches are joined there is an aggregate, with one edge from each of them.

        Troubleshooting: record `instant(team, "aggregate", edges=[("aggregate", branch.closed),
        ...])` at the join, and open what follows with `("causal", that mark)`.
        """
        self.skip_unless("can_fan_out", "agents cannot work at once there")
        for one, trace in self._traces("fanning_out"):
            events = {event.id: event for event in trace.events}
            joins = [event for event in trace.events if event.verb == "aggregate"]
            must = f"{one.name} must have one aggregate"
            self.must(len(joins) == 1, must, len(joins))
            into = [
                events[edge.src].agent
                for edge in trace.edges
                if edge.dst == joins[0].id and edge.type == "aggregate"
            ]
            must = f"{one.name} must have an aggregate edge from each of 'left' and 'right'"
            self.must(sorted(into) == ["left", "right"], must, into)
            found = triggers(trace, openings(trace, "merge")[0])
            must = f"{one.name} must open 'merge' because of both branches"
            self.must(found == {"left", "right"}, must, sorted(found))

    @check
    def test_branches_do_not_cause_each_other(self) -> None:
        """What works at once has the team as its cause, none of its siblings.

        Troubleshooting: causes of a branch are what its framework says triggered it; the
        latest thing that ended is no cause.
        """
        self.skip_unless("can_fan_out", "agents cannot work at once there")
        for one, trace in self._traces("fanning_out"):
            for opened in [*openings(trace, "left"), *openings(trace, "right")]:
                found = triggers(trace, opened)
                must = f"{one.name} must not open {opened.get('to')!r} because of a sibling"
                self.must(not found & {"left", "right", "merge"}, must, sorted(found))

    @check
    def test_a_tool_call_has_its_result_and_is_current_in_the_tool(self) -> None:
        """A call of a tool is one span that is current in the tool's own code.

        Troubleshooting: attach `scope.context` around the tool's body, in the task or thread
        that runs it, and close the scope on every way out.
        """
        self.skip_unless("can_call_tools", "the framework has no tools")
        for one, trace in self._traces("calling_tool"):
            found = [e for e in trace.events if e.verb in ("tool_call", "tool_result")]
            came = [(e.verb, e.get("tool"), e.agent) for e in found]
            wanted = [("tool_call", "lookup", "worker"), ("tool_result", "lookup", "worker")]
            self.must(came == wanted, f"{one.name} must have one call and its result", came)
            current = [_named(one.span(span_id)) for span_id in one.inside]
            must = f"{one.name} must have the tool's span current in the tool's code"
            wanted_name = f"{a.EXECUTE_TOOL} lookup"
            self.must(current == [wanted_name], must, current)
            self.must(found[0].id == f"{one.inside[0]}.open", must, found[0].id)
            after = {edge.type for edge in trace.edges if edge.src == found[1].id}
            must = f"{one.name} must have a tool_dependency from the result to what follows"
            self.must("tool_dependency" in after, must, sorted(after))

    @check
    def test_a_users_span_nests_below_the_agents(self) -> None:
        """A span that an agent's code starts is a child of that agent's activation.

        Troubleshooting: attach `activation.context` around the agent's code, in the task or
        thread that runs it; a pool's threads need the context handed over.
        """
        wanted = {"single": "worker", "nested": "inner"}
        for one, _ in self._traces(*wanted):
            users = [s for s in one.captured.spans if s.name == USER_SPAN]
            must = f"{one.name} must run the agent's code once"
            self.must(len(users) == 1, must, len(users))
            parent = users[0].parent
            above = None if parent is None else one.span(f"{parent.span_id:016x}")
            agent = wanted[one.scenario]
            must = f"{one.name} must have the user's span right below the activation of {agent!r}"
            found = (above.attributes or {}) if above is not None else {}
            is_right = a.OPENS in found and found.get(a.AGENT_NAME) == agent
            self.must(is_right, must, _named(above))

    @check
    def test_a_turn_counts_its_tokens_once(self) -> None:
        """A call of a model is one turn, with its usage, and is counted once.

        Troubleshooting: set gen_ai.usage.* when the turn closes, as int; look for a second
        hook, or for another instrumentation's span of the same call.
        """
        self.skip_unless("can_call_models", "the framework has no models")
        for one, trace in self._traces("calling_model"):
            must = f"{one.name} must call its model once, as it does untraced"
            self.must(len(one.inside) == 1, must, len(one.inside))
            came = [(turn.agent, turn.input_tokens, turn.output_tokens) for turn in trace.turns]
            must = f"{one.name} must have one turn of 'worker' with the model's usage"
            self.must(came == [("worker", *TOKENS)], must, came)
            must = f"{one.name} must count its tokens once"
            self.must(trace.costs["tokens"] == sum(TOKENS), must, trace.costs["tokens"])


def _named(span: ReadableSpan | None) -> str:
    return "none of the run's" if span is None else span.name
