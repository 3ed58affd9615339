"""The adapter kit: a right adapter of a tiny framework passes, each broken one is caught."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest
from opentelemetry import context as otel_context

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Adapter, Patches
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.replay import Change, Part
from orchtrace_otel.testing.conformance import (
    CANARY,
    TOKENS,
    AdapterConformance,
    ConformanceError,
    Replayed,
)

# --- a tiny framework -------------------------------------------------------------------


class Agent:
    """Does something with a text, at once or under asyncio."""

    def __init__(self, name: str, act: Callable[[str], Any]) -> None:
        self.name = name
        self.act = act

    def work(self, text: str) -> str:
        return self.act(text)

    async def awork(self, text: str) -> str:
        said = self.act(text)
        return await said if inspect.isawaitable(said) else said


class Tool:
    def __init__(self, name: str, body: Callable[[str], str]) -> None:
        self.name = name
        self.body = body

    def call(self, text: str) -> str:
        return self.body(text)


class Model:
    def ask(self, text: str) -> tuple[str, tuple[int, int]]:
        return f"{text} answered", TOKENS


class Crew:
    """Agents in stages: those of a stage work side by side on what the stage before said."""

    def __init__(self, *stages: tuple[Agent, ...]) -> None:
        self.stages = stages

    def play(self, text: str) -> Iterator[str]:
        for stage in self.stages:
            said = [agent.work(text) for agent in stage]
            yield from said
            text = " ".join(said)

    async def aplay(self, text: str) -> AsyncIterator[str]:
        for stage in self.stages:
            said = [await agent.awork(text) for agent in stage]
            for one in said:
                yield one
            text = " ".join(said)

    def run(self, text: str) -> list[str]:
        return list(self.play(text))

    async def arun(self, text: str) -> list[str]:
        return [said async for said in self.aplay(text)]


# --- its adapter, done right --------------------------------------------------------------

PLAYING = otel_context.create_key("playing")


class CrewReplayer:
    """Runs a crew again: agents that are out say nothing, those before them what they said."""

    def __init__(self, target: tuple[Crew, list[str]], score: Callable[[Any], float]) -> None:
        self.crew, self.said = target
        self.score = score

    def value(self, change: Change, seed: int) -> float:
        out = {part.name for part in change.touched}
        text, is_before = "", True
        for (agent,), before in zip(self.crew.stages, self.said, strict=True):
            if agent.name in out:
                is_before = False
                text = before if Part("agent", agent.name) in change.anew else ""
            else:
                text = before if is_before else self.work(agent, text)
        return self.score(text)

    def work(self, agent: Agent, text: str) -> str:
        return agent.work(text)


class Playing:
    """A crew that plays: its activation, and what caused the stage that works now."""

    def __init__(self, activation: spans.Activation, run: spans.Run | None, crew: Crew) -> None:
        self.activation = activation
        self.run = run
        self.crew = crew
        self.stage = 0
        self.causes: list[Edge] = [("spawn", activation.opened)]
        self.ended: list[Mark] = []


class CrewAdapter(Adapter):
    name = "crew"
    extra = "langgraph"
    module = __name__
    requires: ClassVar[dict[str, str]] = {"langgraph": ">=0.6,<2"}

    def __init__(self) -> None:
        self.patches: Patches | None = None

    def instrument(self) -> None:
        self.patches = Patches()
        self.patches.wrap(Crew, "play", self.play)
        self.patches.wrap(Crew, "aplay", self.aplay)
        self.patches.wrap(Agent, "work", self.work)
        self.patches.wrap(Agent, "awork", self.awork)
        self.patches.wrap(Tool, "call", self.call)
        self.patches.wrap(Model, "ask", self.ask)

    def uninstrument(self) -> None:
        if self.patches is not None:
            self.patches.undo()
        self.patches = None

    def replayer(self, target, trace, score):
        return CrewReplayer(target, score)

    # crews

    def play(self, wrapped, crew, args, kwargs):
        playing = self.open_crew(crew)
        inner = wrapped(*args, **kwargs)
        error: BaseException | None = None
        try:
            while True:
                token = self.attach(playing)
                try:
                    said = next(inner)
                except StopIteration:
                    return
                finally:
                    self.detach(token)
                yield self.hand_on(said)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.close_crew(playing, error)

    async def aplay(self, wrapped, crew, args, kwargs):
        playing = self.open_crew(crew)
        inner = wrapped(*args, **kwargs)
        error: BaseException | None = None
        try:
            while True:
                token = self.attach(playing)
                try:
                    said = await anext(inner)
                except StopAsyncIteration:
                    return
                finally:
                    self.detach(token)
                yield self.hand_on(said)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.close_crew(playing, error)

    def hand_on(self, said):
        return said

    @guarded
    def open_crew(self, crew):
        outer = self.current()
        if outer is not None:
            edges = [("spawn", outer.opened)]
            return Playing(spans.open_activation(outer, "crew", edges=edges), None, crew)
        run = spans.start_run("crew", system="crew")
        return Playing(run.root, run, crew) if run is not None and run.is_recording else None

    def current(self):
        return spans.current()

    @guarded
    def attach(self, playing):
        if playing is None:
            return None
        context = otel_context.set_value(PLAYING, playing, playing.activation.context)
        return otel_context.attach(context)

    @guarded
    def detach(self, token):
        if token is not None:
            otel_context.detach(token)

    @guarded
    def close_crew(self, playing, error):
        if playing is None:
            return
        status, reason = self.outcome(error)
        failure = error if status == "error" else None
        edges = [("causal", mark) for mark in playing.ended]
        if playing.run is None:
            playing.activation.close(status=status, error=failure, edges=edges)
        else:
            playing.run.close(stop_reason=reason, status=status, error=failure, edges=edges)

    def outcome(self, error):
        return spans.outcome(error)

    # agents

    def work(self, wrapped, agent, args, kwargs):
        opened = self.open_agent(agent)
        token = self.enter(opened)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            self.detach(token)
            self.close_agent(opened, error)
            raise
        self.detach(token)
        self.close_agent(opened, None)
        return result

    async def awork(self, wrapped, agent, args, kwargs):
        opened = self.open_agent(agent)
        token = self.enter(opened)
        try:
            result = await wrapped(*args, **kwargs)
        except BaseException as error:
            self.detach(token)
            self.close_agent(opened, error)
            raise
        self.detach(token)
        self.close_agent(opened, None)
        return result

    @guarded
    def open_agent(self, agent):
        playing = otel_context.get_value(PLAYING)
        if not isinstance(playing, Playing):
            return None
        stage = next(n for n, agents in enumerate(playing.crew.stages) if agent in agents)
        if stage != playing.stage:
            playing.stage = stage
            playing.causes = self.causes(playing.activation, playing.ended)
            playing.ended = []
        activation = spans.open_activation(
            self.parent(playing), agent.name, edges=playing.causes, attributes=self.facts()
        )
        return playing, activation

    def parent(self, playing):
        return playing.activation

    def facts(self):
        return {}

    def causes(self, team, ended):
        if len(ended) == 1:
            return [("causal", ended[0])]
        merged = spans.instant(team, "aggregate", edges=[("aggregate", mark) for mark in ended])
        return [("causal", merged)]

    @guarded
    def enter(self, opened):
        return None if opened is None else otel_context.attach(opened[1].context)

    @guarded
    def close_agent(self, opened, error):
        if opened is None:
            return
        playing, activation = opened
        status, _ = self.outcome(error)
        activation.close(status=status, error=error if status == "error" else None)
        playing.ended.append(activation.closed)

    # tools and models

    def call(self, wrapped, tool, args, kwargs):
        scope = self.open_tool(tool)
        token = self.enter_tool(scope)
        error: BaseException | None = None
        try:
            return wrapped(*args, **kwargs)
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.detach(token)
            self.close_tool(scope, error)

    @guarded
    def open_tool(self, tool):
        current = spans.current()
        if current is None:
            return None
        return spans.open_tool(current, tool.name, edges=[("causal", current.opened)])

    @guarded
    def enter_tool(self, scope):
        return None if scope is None else otel_context.attach(scope.context)

    @guarded
    def close_tool(self, scope, error):
        if scope is not None:
            status, _ = spans.outcome(error)
            scope.close(status=status, error=error)
            scope.activation.flow.returned(scope.closed, "tool_dependency")

    def ask(self, wrapped, model, args, kwargs):
        turn = self.open_turn()
        result = wrapped(*args, **kwargs)
        self.close_turn(turn, result)
        return result

    @guarded
    def open_turn(self):
        current = spans.current()
        return None if current is None else spans.open_turn(current, "scripted")

    @guarded
    def close_turn(self, turn, result):
        if turn is not None:
            read, written = result[1]
            turn.close(attributes={a.INPUT_TOKENS: read, a.OUTPUT_TOKENS: written})


# --- its conformance ----------------------------------------------------------------------


def say(text: str) -> str:
    return f"{text}!"


class CrewConformance(AdapterConformance):
    can_invoke = True
    can_ainvoke = True
    can_stream = True
    can_astream = True
    can_hand_off = True
    can_call_tools = True
    can_call_models = True
    can_fan_out = True
    can_nest = True
    can_wait = True
    can_replay = True

    adapter: type[Adapter] = CrewAdapter

    def make_adapter(self):
        return self.adapter()

    def single(self, look):
        def act(text):
            look()
            return text

        return Crew((Agent("worker", act),))

    def failing(self, error):
        def act(text):
            raise error

        return Crew((Agent("worker", act),))

    def handing_off(self):
        return Crew((Agent("first", say),), (Agent("second", say),))

    def calling_tool(self, look):
        def body(text):
            look()
            return text

        return Crew((Agent("worker", Tool("lookup", body).call),))

    def calling_model(self):
        return Crew((Agent("worker", lambda text: Model().ask(text)[0]),))

    def fanning_out(self):
        return Crew((Agent("left", say), Agent("right", say)), (Agent("merge", say),))

    def nested(self, look):
        def act(text):
            look()
            return text

        inner = Crew((Agent("inner", act),))
        return Crew((Agent("outer", lambda text: " ".join(inner.run(text))),))

    def waiting(self, wait):
        async def act(text):
            await wait()
            return text

        return Crew((Agent("worker", act),))

    def replayed(self, look):
        def telling(name):
            def act(text):
                look(name)
                return f"{text} by {name}"

            return Agent(name, act)

        crew = Crew((telling("first"),), (telling("second"),))
        return Replayed(
            run=lambda: crew.run(CANARY),
            target=lambda said: (crew, said),
            kept=lambda: [len(stage) for stage in crew.stages],
        )

    def invoke(self, team):
        return team.run(CANARY)

    async def ainvoke(self, team):
        return await team.arun(CANARY)

    def stream(self, team):
        return team.play(CANARY)

    def astream(self, team):
        return team.aplay(CANARY)


class TestCrew(CrewConformance):
    """The right adapter passes every check."""


# --- one broken adapter per check -------------------------------------------------------------


class BeginsRuns(CrewAdapter):
    """Opens a run for each agent as well."""

    def parent(self, playing):
        run = spans.start_run("again")
        run.close()
        return playing.activation


class SpawnsTwice(CrewAdapter):
    """Opens each agent below another opening of the same agent."""

    @guarded
    def open_agent(self, agent):
        opened = super().open_agent(agent)
        if opened is None:
            return None
        playing, activation = opened
        activation.close()
        return playing, spans.open_activation(playing.activation, agent.name)


class ForgetsNesting(CrewAdapter):
    """Opens what is inside an agent below the run's root."""

    def current(self):
        current = spans.current()
        return None if current is None else current.run.root


class ForgetsCauses(CrewAdapter):
    """Opens every agent because of the crew."""

    def causes(self, team, ended):
        return [("causal", team.opened)]


class JoinsHalf(CrewAdapter):
    """Leaves a branch out of the aggregate."""

    def causes(self, team, ended):
        if len(ended) == 1:
            return super().causes(team, ended)
        merged = spans.instant(team, "aggregate", edges=[("aggregate", ended[0])])
        return [("causal", merged), ("causal", ended[1])]


class ChainsSiblings(CrewAdapter):
    """Takes what ended last for the cause of what comes next."""

    @guarded
    def open_agent(self, agent):
        playing, activation = super().open_agent(agent)
        if playing.ended:
            edges = [("causal", playing.ended[-1])]
            activation.close()
            activation = spans.open_activation(playing.activation, agent.name, edges=edges)
        return playing, activation


class KeepsToolsOut(CrewAdapter):
    """Attaches no context around the body of a tool."""

    def enter_tool(self, scope):
        return None


class KeepsAgentsOut(CrewAdapter):
    """Attaches no context around an agent's code."""

    def enter(self, opened):
        return None


class CountsTwice(CrewAdapter):
    """Opens two turns for each call of a model."""

    @guarded
    def close_turn(self, turn, result):
        super().close_turn(turn, result)
        super().close_turn(spans.open_turn(turn.parent, "scripted"), result)


class WritesNumbers(CrewAdapter):
    """Writes a number where a text belongs."""

    def facts(self):
        return {a.ROLE: 1}


class InventsKeys(CrewAdapter):
    """Writes a key that attributes.py does not know."""

    def facts(self):
        return {"orchtrace.mood": "good"}


class LooksAhead(CrewAdapter):
    """Gives an agent's opening a cause that comes later."""

    @guarded
    def close_agent(self, opened, error):
        _, activation = opened
        later = spans.instant(activation.run.root, "decide")
        activation.span.set_attribute(a.EDGES, [f"causal:{later.event_id}"])
        super().close_agent(opened, error)


class EndsLate(CrewAdapter):
    """Records something once the run is over."""

    @guarded
    def close_crew(self, playing, error):
        super().close_crew(playing, error)
        if playing.run is not None:
            late = spans.open_activation(playing.activation, "late")
            late.close()


class GuessesWhy(CrewAdapter):
    """Stops without knowing why."""

    @guarded
    def close_crew(self, playing, error):
        playing.run.close(stop_reason="unknown")


class TellsContent(CrewAdapter):
    """Writes what an agent said into an attribute."""

    @guarded
    def close_crew(self, playing, error):
        playing.activation.span.set_attribute("said", CANARY)
        super().close_crew(playing, error)


class LogsContent(CrewAdapter):
    """Writes what goes through it into a log."""

    def hand_on(self, said):
        import logging

        logging.getLogger("orchtrace_otel").debug("handing on %s", said)
        return said


class ChangesResults(CrewAdapter):
    """Hands something else on than what it was given."""

    def hand_on(self, said):
        return said.upper()


class WrapsExceptions(CrewAdapter):
    """Raises a new exception for the host's."""

    def work(self, wrapped, agent, args, kwargs):
        try:
            return super().work(wrapped, agent, args, kwargs)
        except ValueError as error:
            raise ValueError(str(error)) from None


class NotesExceptions(CrewAdapter):
    """Adds a note to the host's exception."""

    @guarded
    def close_agent(self, opened, error):
        super().close_agent(opened, error)
        if error is not None:
            error.add_note("traced")


class RecordsExceptions(CrewAdapter):
    """Records an exception with its text, as OpenTelemetry's own method does."""

    @guarded
    def close_agent(self, opened, error):
        if error is not None:
            opened[1].span.record_exception(error)
        super().close_agent(opened, error)


class HidesErrors(CrewAdapter):
    """Takes every end for a good one."""

    def outcome(self, error):
        return ("ok", "information_complete")


class AlwaysFails(CrewAdapter):
    """Takes a good end for a failure."""

    @guarded
    def close_agent(self, opened, error):
        opened[1].close(status="error")
        super().close_agent(opened, error)


class LeavesOpen(CrewAdapter):
    """Closes no agent that failed."""

    @guarded
    def close_agent(self, opened, error):
        if error is None:
            super().close_agent(opened, error)


class EndsTwice(CrewAdapter):
    """Ends a span behind the back of what keeps it."""

    @guarded
    def close_agent(self, opened, error):
        super().close_agent(opened, error)
        span = opened[1].span
        for processor in span._span_processor._span_processors[:1]:
            processor.on_end(span)


class LeavesContext(CrewAdapter):
    """Detaches nothing."""

    def detach(self, token):
        pass


class FailsInside(CrewAdapter):
    """Fails behind the guard after its work is done."""

    @guarded
    def close_tool(self, scope, error):
        super().close_tool(scope, error)
        raise LookupError


class DiffersUnderAsyncio(CrewAdapter):
    """Traces agents that run without asyncio only."""

    async def awork(self, wrapped, agent, args, kwargs):
        return await wrapped(*args, **kwargs)


class DiffersInStreams(CrewAdapter):
    """Records a decision where a crew is streamed."""

    def instrument(self):
        super().instrument()
        self.is_run = False
        self.patches.wrap(Crew, "run", self.note)
        self.patches.wrap(Crew, "arun", self.anote)

    def note(self, wrapped, crew, args, kwargs):
        self.is_run = True
        try:
            return wrapped(*args, **kwargs)
        finally:
            self.is_run = False

    async def anote(self, wrapped, crew, args, kwargs):
        self.is_run = True
        try:
            return await wrapped(*args, **kwargs)
        finally:
            self.is_run = False

    @guarded
    def close_crew(self, playing, error):
        if not self.is_run:
            spans.instant(playing.activation, "decide")
        super().close_crew(playing, error)


class MixesRuns(CrewAdapter):
    """Keeps the crew that plays on itself instead of in the context."""

    latest: Playing | None = None

    @guarded
    def open_crew(self, crew):
        opened = super().open_crew(crew)
        self.latest = self.latest or opened
        return opened

    @guarded
    def attach(self, playing):
        token = super().attach(playing)
        inner = otel_context.set_value(PLAYING, self.latest)
        otel_context.attach(inner)
        return token

    @guarded
    def open_agent(self, agent):
        self.latest.crew = otel_context.get_value(PLAYING).crew
        activation = spans.open_activation(self.latest.activation, agent.name)
        return self.latest, activation


class TakesLeavingForFailure(CrewAdapter):
    """Takes a consumer that leaves, and a cancellation, for a failure."""

    def outcome(self, error):
        return ("ok", "information_complete") if error is None else ("error", "error")


class StaysIn(CrewAdapter):
    """Takes nothing out."""

    def uninstrument(self):
        self.left, self.patches = self.patches, None
        taken_out.append(self.left)


taken_out: list[Patches] = []


class WrapsObjects(CrewAdapter):
    """Goes on working after its hooks are out."""

    def uninstrument(self):
        self.patches._undo.clear()
        taken_out.append(self.patches)


class UnwrapsOthers(CrewAdapter):
    """Puts the originals back whatever is there by now."""

    def instrument(self):
        self.before = {(o, n): vars(o)[n] for o, n in SEAMS}
        super().instrument()

    def uninstrument(self):
        self.patches._active = False
        for (owner, name), original in self.before.items():
            setattr(owner, name, original)


SEAMS = [
    (Crew, "play"),
    (Crew, "aplay"),
    (Agent, "work"),
    (Agent, "awork"),
    (Tool, "call"),
    (Model, "ask"),
]


class HidesSignatures(CrewAdapter):
    """Puts a function of its own face in the place of the host's."""

    def instrument(self):
        super().instrument()
        ours = vars(Tool)["call"]

        def anything(*args, **kwargs):
            return ours(*args, **kwargs)

        self.patches.replace(Tool, "call", anything)


class KeepsTeams(CrewAdapter):
    """Remembers every crew that ever played."""

    def __init__(self) -> None:
        super().__init__()
        self.crews: list[Crew] = []

    def open_crew(self, crew):
        self.crews.append(crew)
        return super().open_crew(crew)


class RaisesIntoHost(CrewAdapter):
    """Opens agents outside of the guard."""

    def open_agent(self, agent):
        return CrewAdapter.open_agent.__wrapped__(self, agent)


class NeedsSpans(CrewAdapter):
    """Cannot do without a run that records."""

    def play(self, wrapped, crew, args, kwargs):
        playing = self.open_crew(crew)
        if playing is None:
            return
        self.close_crew(playing, None)
        yield from wrapped(*args, **kwargs)


class RunsAllAgain(CrewAdapter):
    """Calls those before the change once more."""

    def replayer(self, target, trace, score):
        target[0].run(CANARY)
        return super().replayer(target, trace, score)


class ReplaysInPlace(CrewAdapter):
    """Takes agents out of the host's own crew."""

    def replayer(self, target, trace, score):
        crew, said = target
        crew.stages = ((), *crew.stages[1:])
        return super().replayer((Crew(*[(Agent("second", say),)]), said[1:]), trace, score)


class TracesReplays(CrewAdapter):
    """Opens a run for a replay, in a context in which nothing is suppressed."""

    def replayer(self, target, trace, score):
        spans.start_run("replay").close()
        return super().replayer(target, trace, score)


class ReplaysNothing(CrewAdapter):
    """Does not know its own teams."""

    replayer = Adapter.replayer


class FailsReplays(CrewAdapter):
    """Makes replays that raise."""

    def replayer(self, target, trace, score):
        return super().replayer((target[0], []), trace, score)


class AsksForMore(CrewAdapter):
    """Was tried with other versions than the extra installs."""

    requires: ClassVar[dict[str, str]] = {"langgraph": ">=0.2,<2"}


BROKEN = [
    ("test_a_run_is_one_root_and_one_trace", BeginsRuns, "must give one trace, came 2"),
    ("test_an_agent_is_an_activation_of_the_team", SpawnsTwice, "one activation of 'worker'"),
    ("test_parents_follow_the_nesting_of_agents", ForgetsNesting, "'inner' below 'outer'"),
    ("test_what_follows_has_its_cause", ForgetsCauses, "because of 'first' alone"),
    ("test_a_join_is_an_aggregate_with_an_edge_a_branch", JoinsHalf, "from each of 'left'"),
    ("test_branches_do_not_cause_each_other", ChainsSiblings, "because of a sibling"),
    ("test_a_tool_call_has_its_result_and_is_current_in_the_tool", KeepsToolsOut, "current in"),
    ("test_a_users_span_nests_below_the_agents", KeepsAgentsOut, "right below the activation"),
    ("test_a_turn_counts_its_tokens_once", CountsTwice, "one turn of 'worker'"),
    ("test_attributes_have_known_keys_and_exact_types", WritesNumbers, "of type int: 1"),
    ("test_attributes_have_known_keys_and_exact_types", InventsKeys, "orchtrace.mood is no key"),
    ("test_traces_are_valid", LooksAhead, "must give a valid trace"),
    ("test_spans_in_any_order_give_the_same_trace", EndsLate, "in any order of arrival"),
    ("test_a_run_ends_with_its_stop", GuessesWhy, "came 'unknown'"),
    ("test_content_stays_inside", TellsContent, "through the attribute said"),
    ("test_content_stays_inside", LogsContent, "through the log"),
    ("test_content_stays_inside", RecordsExceptions, "through an event of"),
    ("test_captured_content_is_redacted", TellsContent, "through the attribute said"),
    ("test_results_are_the_same", ChangesResults, "must give the host"),
    ("test_the_hosts_exception_goes_through", WrapsExceptions, "the very object"),
    ("test_the_hosts_exception_goes_through", NotesExceptions, "must stay as it was"),
    ("test_nothing_of_the_host_is_kept", KeepsTeams, "came a team that is alive"),
    ("test_signatures_are_kept", HidesSignatures, "Tool.call must look like ('call',"),
    ("test_an_error_marks_the_agent_and_the_run", RecordsExceptions, "no exception event"),
    ("test_an_error_marks_the_agent_and_the_run", HidesErrors, "status ERROR, came UNSET"),
    ("test_only_failures_are_errors", AlwaysFails, "no span of status ERROR"),
    ("test_every_span_ends_once", LeavesOpen, "came an open 'invoke_agent worker'"),
    ("test_every_span_ends_once", EndsTwice, "a second end of 'invoke_agent worker'"),
    ("test_the_callers_context_is_left_alone", LeavesContext, "came other values of"),
    ("test_nothing_fails_behind_the_guard", FailsInside, "close_tool"),
    ("test_sync_and_async_give_one_tree", DiffersUnderAsyncio, "one tree by invoke() and"),
    ("test_a_stream_gives_the_tree_of_a_run", DiffersInStreams, "invoke() and by stream()"),
    ("test_concurrent_runs_do_not_mix", MixesRuns, "each of them must be like"),
    ("test_waiting_runs_do_not_mix", MixesRuns, "must have its own agent"),
    ("test_a_stream_closed_early_is_no_error", TakesLeavingForFailure, "consumer_closed"),
    ("test_a_cancelled_run_says_so", TakesLeavingForFailure, "because of cancelled"),
    ("test_instrumenting_twice_is_once", StaysIn, "in once"),
    ("test_uninstrument_restores_the_originals", StaysIn, "must be the original"),
    ("test_nothing_is_traced_after_uninstrument", WrapsObjects, "must not be traced any more"),
    ("test_wrappers_of_others_survive", UnwrapsOthers, "another tool's wrapper must survive"),
    ("test_wrappers_of_others_survive", WrapsObjects, "must do nothing any more"),
    ("test_a_failing_tracer_never_reaches_the_host", RaisesIntoHost, "must not raise"),
    ("test_unsampled_runs_are_the_same", NeedsSpans, "unsampled, must give the host"),
    ("test_the_extra_asks_for_the_versions_that_were_tried", AsksForMore, "must ask for"),
    ("test_a_replay_leaves_the_host_alone", RunsAllAgain, "must not be called, came ['first'"),
    ("test_a_replay_leaves_the_host_alone", ReplaysInPlace, "must be as it was"),
    ("test_a_replay_leaves_the_host_alone", TracesReplays, "no span must come of replays"),
    ("test_a_replay_leaves_the_host_alone", ReplaysNothing, "must know what it is given"),
    ("test_a_replay_leaves_the_host_alone", FailsReplays, "must come to their end"),
]


@pytest.fixture
def restored() -> Iterator[None]:
    """The tiny framework is as it was, whatever an adapter left in it."""
    seams = [*SEAMS, (Crew, "run"), (Crew, "arun")]
    before = [(owner, name, vars(owner)[name]) for owner, name in seams]
    context = otel_context.get_current()
    yield
    otel_context.attach(context)
    for owner, name, original in before:
        setattr(owner, name, original)


@pytest.mark.swallows_errors
@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("check", "broken", "told"), BROKEN, ids=[f"{check}-{b.__name__}" for check, b, _ in BROKEN]
)
def test_each_check_bites(check: str, broken: type[Adapter], told: str) -> None:
    """An adapter that breaks one promise fails the check of that promise, which says why."""
    kit = type(f"{broken.__name__}Conformance", (CrewConformance,), {"adapter": broken})()
    with pytest.raises(ConformanceError) as failure:
        getattr(kit, check)()
    assert told in str(failure.value)
    assert "\nlook at: " in str(failure.value)


def test_every_check_has_a_broken_adapter() -> None:
    """No check of the kit goes without a proof that it bites."""
    assert {check for check, _, _ in BROKEN} == set(AdapterConformance._checks)


def test_every_check_says_what_to_look_at() -> None:
    """The docstring of each check has a line for who sees it fail."""
    checks = AdapterConformance._checks.items()
    assert [name for name, check in checks if "Troubleshooting:" not in check.__doc__] == []


def test_a_check_cannot_be_dropped_or_replaced() -> None:
    """A class that deletes or overrides a check, itself or by a mixin, cannot be made."""

    class Mixin:
        def test_traces_are_valid(self):
            pass

    for bases, names in [
        ((CrewConformance,), {"test_traces_are_valid": None}),
        ((CrewConformance,), {"test_traces_are_valid": lambda self: None}),
        ((Mixin, CrewConformance), {}),
    ]:
        with pytest.raises(TypeError, match="must leave the check test_traces_are_valid"):
            type("Silent", bases, names)


def test_a_check_may_be_expected_to_fail_for_a_reason() -> None:
    """An override that is marked xfail with a reason is seen in every report, and allowed."""

    class Known(CrewConformance):
        @pytest.mark.xfail(reason="the framework hides the branches, issue 7")
        def test_traces_are_valid(self):
            super().test_traces_are_valid()

    with pytest.raises(TypeError, match="must leave the check"):

        class Silent(CrewConformance):
            @pytest.mark.xfail
            def test_traces_are_valid(self):
                super().test_traces_are_valid()

    Known().test_traces_are_valid()


def test_what_is_not_declared_is_skipped_in_plain_sight() -> None:
    """A capability that a class does not declare is a skip that names it."""

    class Plain(CrewConformance):
        can_fan_out = False

    with pytest.raises(pytest.skip.Exception, match="does not declare can_fan_out"):
        Plain().test_branches_do_not_cause_each_other()


def test_a_kit_without_a_way_to_run_fails() -> None:
    """A class that declares no way to run a team fails instead of skipping everything."""

    class Idle(CrewConformance):
        can_invoke = can_ainvoke = can_stream = can_astream = False

    with pytest.raises(ConformanceError, match="a way to run a team must be declared"):
        Idle().test_traces_are_valid()


def test_a_team_without_the_canary_fails() -> None:
    """The check of content is worth nothing for teams that say nothing."""

    class Silent(CrewConformance):
        def invoke(self, team):
            return team.run("hush")

    with pytest.raises(ConformanceError, match="must put CANARY"):
        Silent().test_content_stays_inside()


def test_a_team_that_does_not_run_untraced_fails() -> None:
    """A scenario that is at fault itself is told, instead of being compared with itself."""

    class Faulty(CrewConformance):
        def invoke(self, team):
            raise LookupError

    with pytest.raises(ConformanceError, match=r"'single' must run untraced by invoke\(\)"):
        Faulty().test_traces_are_valid()


def test_a_team_that_was_to_fail_and_does_not_is_told() -> None:
    """A failing team that raises nothing would prove nothing."""

    class Calm(CrewConformance):
        def failing(self, error):
            return self.single(lambda: None)

    with pytest.raises(ConformanceError, match=r"'failing' must raise untraced by invoke\(\)"):
        Calm().test_traces_are_valid()
