"""What each kind of team becomes: agents, verbs and edges, whole."""

import asyncio

import pytest
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_round_robin_becomes_decisions_turns_messages_and_tool_calls(traced, script, read) -> None:
    """Each turn follows from the decision, the decision from the turn before it."""
    alpha = script.agent("alpha", "one", "two")
    beta = script.agent("beta", script.calls(("c", "add", '{"a": 1, "b": 2}')), tools=[add])
    team = RoundRobinGroupChat([alpha, beta], termination_condition=MaxMessageTermination(4))
    asyncio.run(team.run(task="go"))
    assert read.outline(traced.trace) == [
        "0 user begin RoundRobinGroupChat",
        "1 RoundRobinGroupChat decide alpha <- causal 0",
        "2 RoundRobinGroupChat spawn alpha <- message 0, spawn 1",
        "3 alpha message broadcast <- causal 2",
        "4 alpha return RoundRobinGroupChat <- causal 3",
        "5 RoundRobinGroupChat decide beta <- causal 4",
        "6 RoundRobinGroupChat spawn beta <- message 0, message 3, spawn 5",
        "7 beta tool_call add <- causal 6",
        "8 beta tool_result add",
        "9 beta message broadcast <- causal 6, tool_dependency 8",
        "10 beta return RoundRobinGroupChat <- causal 9",
        "11 RoundRobinGroupChat decide alpha <- causal 10",
        "12 RoundRobinGroupChat delegate alpha <- causal 11, message 9",
        "13 alpha message broadcast <- causal 12",
        "14 alpha return RoundRobinGroupChat <- causal 13",
        "15 RoundRobinGroupChat stop <- causal 14",
    ]
    trace = traced.trace
    assert trace.system == "autogen"
    assert trace.events[1].get("candidates") == ["alpha", "beta"]
    assert trace.events[7].get("tool_call_id") == "c"
    assert [(t.agent, t.input_tokens, t.output_tokens, t.finish_reason) for t in trace.turns] == [
        ("alpha", 7, 3, "stop"),
        ("beta", 11, 5, "function_calls"),
        ("alpha", 7, 3, "stop"),
    ]
    assert [e.get("tokens") for e in trace.events if e.get("tokens")] == [10, 16, 10]
    assert trace.costs["tokens"] == 36
    assert {e["instance"] for e in trace.events if e.agent == "alpha"} == {"alpha#1"}


def test_diamond_joins_both_branches(traced, script, read) -> None:
    """The last turn follows from an aggregate of both branches, not from the later one."""
    a, b, c, d = (script.agent(name, name) for name in "abcd")
    graph = DiGraphBuilder()
    for agent in (a, b, c, d):
        graph.add_node(agent)
    graph.add_edge(a, b).add_edge(a, c).add_edge(b, d).add_edge(c, d)
    asyncio.run(GraphFlow([a, b, c, d], graph=graph.build()).run(task="go"))
    assert read.outline(traced.trace) == [
        "0 user begin GraphFlow",
        "1 GraphFlow decide a <- causal 0",
        "2 GraphFlow spawn a <- message 0, spawn 1",
        "3 a message broadcast <- causal 2",
        "4 a return GraphFlow <- causal 3",
        "5 GraphFlow decide b+c <- causal 4",
        "6 GraphFlow spawn b <- message 0, message 3, spawn 5",
        "7 b message broadcast <- causal 6",
        "8 b return GraphFlow <- causal 7",
        "9 GraphFlow spawn c <- message 0, message 3, spawn 5",
        "10 c message broadcast <- causal 9",
        "11 c return GraphFlow <- causal 10",
        "12 GraphFlow aggregate <- aggregate 11, aggregate 8",
        "13 GraphFlow decide d <- causal 12",
        "14 GraphFlow spawn d <- message 0, message 10, message 3, message 7, spawn 13",
        "15 d message broadcast <- causal 14",
        "16 d return GraphFlow <- causal 15",
        "17 GraphFlow stop <- causal 16",
    ]


def test_branches_of_unequal_depth_keep_their_own_causes(traced, plain, read) -> None:
    """A join waits over several steps and still knows both branches; others have one cause."""
    a, b, c, d, e = (plain(name) for name in "abcde")
    graph = DiGraphBuilder()
    for agent in (a, b, c, d, e):
        graph.add_node(agent)
    graph.add_edge(a, b).add_edge(a, c).add_edge(c, d).add_edge(b, e).add_edge(d, e)
    asyncio.run(GraphFlow([a, b, c, d, e], graph=graph.build()).run(task="go"))
    assert read.triggers(traced.trace) == [
        ("a", ("user",)),
        ("b", ("a",)),
        ("c", ("a",)),
        ("d", ("c",)),
        ("e", ("b", "d")),
    ]


def test_any_group_follows_from_the_branch_that_came_first(traced, plain, read) -> None:
    """With an any group the first branch starts the target; the second comes too late."""
    a, b, c, d = (plain(name) for name in "abcd")
    graph = DiGraphBuilder()
    for agent in (a, b, c, d):
        graph.add_node(agent)
    graph.add_edge(a, b).add_edge(a, c)
    graph.add_edge(b, d, activation_group="first", activation_condition="any")
    graph.add_edge(c, d, activation_group="first", activation_condition="any")
    asyncio.run(GraphFlow([a, b, c, d], graph=graph.build()).run(task="go"))
    assert read.triggers(traced.trace)[-1] == ("d", ("b",))


def test_groups_that_one_answer_completes_are_asked_for_in_the_order_of_its_edges(
    traced, plain, read
) -> None:
    """The target has a turn for each group, and each turn its group's causes."""
    a, b, c = (plain(name) for name in "abc")
    graph = DiGraphBuilder()
    for agent in (a, b, c):
        graph.add_node(agent)
    graph.add_edge(a, b)
    for source in (a, b):
        graph.add_edge(source, c, activation_group="z")
    graph.add_edge(b, c, activation_group="a", activation_condition="any")
    asyncio.run(GraphFlow([a, b, c], graph=graph.build()).run(task="go"))
    assert read.triggers(traced.trace)[2:] == [("c", ("a", "b")), ("c", ("b",))]


def test_two_edges_of_a_group_from_one_agent_may_complete_it_halfway(traced, plain, read) -> None:
    """Each counts; what the target follows from is what counted, not all that came meanwhile."""
    s, a, b, c, d = (plain(name) for name in "sabcd")
    graph = DiGraphBuilder()
    for agent in (s, a, b, c, d):
        graph.add_node(agent)
    for source in (s, b):
        graph.add_edge(source, a, activation_group=source.name, activation_condition="any")
    graph.add_edge(s, b).add_edge(b, d).add_edge(d, c, condition="never")
    graph.add_edge(a, c).add_edge(a, c)
    asyncio.run(GraphFlow([s, a, b, c, d], graph=graph.build()).run(task="go"))
    assert read.triggers(traced.trace) == [
        ("s", ("user",)),
        ("a", ("s",)),
        ("b", ("s",)),
        ("a", ("b",)),
        ("d", ("b",)),
        ("c", ("a",)),
    ]


def test_what_came_for_a_group_that_begins_anew_is_no_cause(traced, plain, read) -> None:
    """AutoGen remembers over a reset that a group was complete, and empties it for the next turn.

    `a` counts for the join of `a` and `b` before that, and what `b` answers twice completes it.
    """
    a, d = plain("a"), plain("d")
    of_b, of_c = iter(("halt", "b", "b")), iter(("on", "on", "on", "end", "end"))
    b, c = plain("b", lambda _: next(of_b)), plain("c", lambda _: next(of_c))
    e = plain("e", lambda _: "halt")
    graph = DiGraphBuilder()
    for agent in (a, b, c, d, e):
        graph.add_node(agent)
    graph.add_edge(a, c, activation_group="join").add_edge(b, c, activation_group="join")
    for source, target in ((a, d), (b, d), (d, c)):
        own = f"{source.name}{target.name}"
        graph.add_edge(source, target, activation_group=own, activation_condition="any")
    graph.add_edge(c, b, condition="on").add_edge(c, e, condition="end")
    graph.set_entry_point(a)
    flow = GraphFlow(
        [a, b, c, d, e],
        graph=graph.build(),
        termination_condition=TextMentionTermination("halt"),
    )

    async def twice() -> None:
        await flow.run(task="go")
        await flow.reset()
        await flow.run(task="go")

    asyncio.run(twice())
    assert read.triggers(traced.traces[-1])[:8] == [
        ("a", ("user",)),
        ("d", ("a",)),
        ("c", ("d",)),
        ("b", ("c",)),
        ("d", ("b",)),
        ("c", ("d",)),
        ("b", ("c",)),
        ("c", ("b",)),
    ]


def test_loop_of_a_flow_has_fresh_causes_each_round(traced, plain, read) -> None:
    """Each round of a loop follows from the round before."""
    writer = plain("writer")
    critic = plain("critic", lambda n: "APPROVE" if n == 3 else "again")
    end = plain("end")
    graph = DiGraphBuilder()
    for agent in (writer, critic, end):
        graph.add_node(agent)
    graph.add_edge(writer, critic)
    graph.add_edge(critic, end, condition=lambda m: "APPROVE" in m.to_model_text())
    graph.add_edge(critic, writer, condition=lambda m: "APPROVE" not in m.to_model_text())
    graph.set_entry_point(writer)
    flow = GraphFlow(
        [writer, critic, end],
        graph=graph.build(),
        termination_condition=MaxMessageTermination(20),
    )
    asyncio.run(flow.run(task="go"))
    assert read.triggers(traced.trace) == [
        ("writer", ("user",)),
        ("critic", ("writer",)),
        ("writer", ("critic",)),
        ("critic", ("writer",)),
        ("writer", ("critic",)),
        ("critic", ("writer",)),
        ("end", ("critic",)),
    ]


def test_handoff_is_the_agents_own_delegation(traced, script, read) -> None:
    """The transfer is a tool call, then a delegation that the target's turn begins from."""
    a = script.agent("a", script.calls(("t", "transfer_to_b", "{}")), handoffs=["b"])
    b = script.agent("b", "over")
    team = Swarm([a, b], termination_condition=TextMentionTermination("over"))
    asyncio.run(team.run(task="go"))
    assert read.outline(traced.trace) == [
        "0 user begin Swarm",
        "1 Swarm decide a <- causal 0",
        "2 Swarm spawn a <- message 0, spawn 1",
        "3 a tool_call transfer_to_b <- causal 2",
        "4 a tool_result transfer_to_b",
        "5 a delegate b <- causal 2, tool_dependency 4",
        "6 a return Swarm <- causal 5",
        "7 Swarm decide b <- causal 6",
        "8 a begin b <- causal 5, causal 7, message 0, message 5",
        "9 b message broadcast <- causal 8",
        "10 b return a <- causal 9",
        "11 Swarm stop <- causal 10",
    ]


def test_handoff_of_an_agent_without_a_model_is_seen(traced, plain, read) -> None:
    """It is the message that hands over, not the tool."""
    a = plain("a", lambda _: HandoffMessage(content="yours", source="a", target="b"))
    b = plain("b", lambda _: "over")
    team = Swarm([a, b], termination_condition=TextMentionTermination("over"))
    a._handoffs = {}
    asyncio.run(team.run(task="go"))
    assert read.openings(traced.trace) == [("begin", "Swarm"), ("spawn", "a"), ("begin", "b")]


def test_selector_decides_among_candidates_with_its_own_turn(traced, script, read) -> None:
    """The model's turn that chose is the decision's, with its tokens and its candidates.

    Nobody speaks twice in a row: of two the other one is next, and no model is asked.
    """
    a, b = script.agent("a", "one"), script.agent("b", "two")
    team = SelectorGroupChat(
        [a, b],
        model_client=script.client(script.says("b", 20, 1), script.says("a", 30, 1)),
        termination_condition=MaxMessageTermination(3),
    )
    asyncio.run(team.run(task="go"))
    trace = traced.trace
    decisions = [e for e in trace.events if e.verb == "decide"]
    assert [(e["chosen"], e["candidates"], e.get("tokens")) for e in decisions] == [
        ("b", ["a", "b"], 21),
        ("a", ["a"], None),
    ]
    assert read.triggers(trace) == [("b", ("user",)), ("a", ("b",))]


def test_selector_function_decides_among_all(traced, plain, read) -> None:
    """A function that chooses has every participant to choose from."""
    a, b, c = plain("a"), plain("b"), plain("c")
    team = SelectorGroupChat(
        [a, b, c],
        model_client=_no_model(),
        selector_func=lambda thread: "c" if len(thread) == 1 else "b",
        termination_condition=MaxMessageTermination(3),
    )
    asyncio.run(team.run(task="go"))
    decisions = [e for e in traced.trace.events if e.verb == "decide"]
    assert [(e["chosen"], e["candidates"]) for e in decisions] == [
        ("c", ["a", "b", "c"]),
        ("b", ["a", "b", "c"]),
    ]


def test_the_only_one_who_may_speak_is_the_only_candidate(traced, plain) -> None:
    """No model is asked then; of a selector with both functions nobody can tell who was."""
    left = SelectorGroupChat(
        [plain("c"), plain("d"), plain("e")],
        model_client=_no_model(),
        candidate_func=lambda thread: ["d"] if len(thread) == 1 else ["e"],
        max_turns=2,
    )
    mixed = SelectorGroupChat(
        [plain("f"), plain("g")],
        model_client=_no_model(),
        selector_func=lambda thread: "f" if len(thread) == 1 else None,
        candidate_func=lambda _: ["g"],
        max_turns=2,
    )

    for team in (left, mixed):
        asyncio.run(team.run(task="go"))
    decisions = [e for trace in traced.traces for e in trace.events if e.verb == "decide"]
    assert [(e["chosen"], e.get("candidates")) for e in decisions] == [
        ("d", ["d"]),
        ("e", ["e"]),
        ("f", ["f", "g"]),
        ("g", None),
    ]


def _no_model():
    from autogen_ext.models.replay import ReplayChatCompletionClient

    return ReplayChatCompletionClient([])


def test_concurrent_speakers_are_merged_before_the_next_decision(traced, plain, read) -> None:
    """A manager that asks several at once waits for all: the next turn follows from each."""
    a, b, c = plain("a"), plain("b"), plain("c")
    team = SelectorGroupChat(
        [a, b, c],
        model_client=_no_model(),
        selector_func=lambda _: "c",
        max_turns=2,
    )
    original = team._create_group_chat_manager_factory

    def both_first(*args, **kwargs):
        make = original(*args, **kwargs)

        def factory():
            manager = make()
            choose = manager.select_speaker

            async def select(thread):
                return ["a", "b"] if len(thread) == 1 else await choose(thread)

            manager.select_speaker = select
            return manager

        return factory

    team._create_group_chat_manager_factory = both_first
    asyncio.run(team.run(task="go"))
    assert read.triggers(traced.trace) == [("a", ("user",)), ("b", ("user",)), ("c", ("a", "b"))]


def test_parallel_tool_calls_of_one_turn_do_not_see_each_other(traced, script, read) -> None:
    """Both follow from the turn that asked; the next turn's call follows from both results."""
    two = script.calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}'))
    agent = script.agent(
        "a", two, script.calls(("c3", "add", '{"a": 3, "b": 7}')), "ten",
        tools=[add], max_tool_iterations=3,
    )  # fmt: skip
    team = RoundRobinGroupChat([agent], max_turns=1)
    asyncio.run(team.run(task="go"))
    assert read.outline(traced.trace)[3:] == [
        "3 a tool_call add <- causal 2",
        "4 a tool_call add <- causal 2",
        "5 a tool_result add",
        "6 a tool_result add",
        "7 a tool_call add <- causal 2, tool_dependency 5, tool_dependency 6",
        "8 a tool_result add",
        "9 a message broadcast <- causal 2, tool_dependency 8",
        "10 a return RoundRobinGroupChat <- causal 9",
        "11 RoundRobinGroupChat stop <- causal 10",
    ]


def test_agent_on_its_own_is_a_run(traced, script, read) -> None:
    """An agent that nobody else runs is spawned in a run of its own."""
    asyncio.run(script.agent("alone", "done").run(task="go"))
    assert read.outline(traced.trace) == [
        "0 user begin orchestrator",
        "1 orchestrator spawn alone <- spawn 0",
        "2 alone return orchestrator",
        "3 orchestrator stop <- return 2",
    ]
    assert traced.trace.events[2].get("tokens") == 10


def test_agent_behind_a_tool_is_spawned_by_the_call(traced, script, read) -> None:
    """The inner agent follows from the tool call, whose result follows from it."""
    from autogen_agentchat.tools import AgentTool

    inner = script.agent("inner", "deep", description="inner")
    outer = script.agent(
        "outer", script.calls(("i", "inner", '{"task": "x"}')), tools=[AgentTool(inner)]
    )
    asyncio.run(RoundRobinGroupChat([outer], max_turns=1).run(task="go"))
    assert read.outline(traced.trace)[3:] == [
        "3 outer tool_call inner <- causal 2",
        "4 outer spawn inner <- spawn 3",
        "5 inner return outer",
        "6 outer tool_result inner <- return 5",
        "7 outer message broadcast <- causal 2, tool_dependency 6",
        "8 outer return RoundRobinGroupChat <- causal 7",
        "9 RoundRobinGroupChat stop <- causal 8",
    ]


def test_second_run_of_a_team_is_a_trace_of_its_own(traced, plain) -> None:
    """Nothing of the first run reaches into the second."""

    async def twice() -> None:
        team = RoundRobinGroupChat([plain("a"), plain("b")], max_turns=2)
        await team.run(task="go")
        await team.run()

    asyncio.run(twice())
    first, second = traced.traces
    assert [e.verb for e in first.events] == [e.verb for e in second.events]
    assert first.flags == second.flags == ()
    assert first.trace_id != second.trace_id


def test_traces_are_whole(traced, plain) -> None:
    """Five teams at once: five traces, each complete, of equal shape."""

    async def five() -> None:
        teams = [RoundRobinGroupChat([plain("a"), plain("b")], max_turns=4) for _ in range(5)]
        await asyncio.gather(*(team.run(task="go") for team in teams))

    asyncio.run(five())
    shapes = {tuple((e.agent, e.verb) for e in trace.events) for trace in traced.traces}
    assert len(traced.traces) == 5
    assert len(shapes) == 1
    assert len({span.context.trace_id for span in traced.spans}) == 5
    assert [trace.flags for trace in traced.traces] == [()] * 5


@pytest.mark.parametrize("teams", [2])
def test_teams_on_one_shared_runtime_do_not_mix(traced, plain, teams) -> None:
    """A runtime that the host started, outside any run, serves several teams at once."""
    from autogen_core import SingleThreadedAgentRuntime

    async def shared() -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        runs = [
            RoundRobinGroupChat([plain("a"), plain("b")], max_turns=3, runtime=runtime)
            for _ in range(teams)
        ]
        await asyncio.gather(*(team.run(task="go") for team in runs))
        await runtime.stop_when_idle()

    asyncio.run(shared())
    verbs = ["begin", *(["decide", "spawn", "message", "return"] * 2), "decide", "delegate",
             "message", "return", "stop"]  # fmt: skip
    assert [[e.verb for e in trace.events] for trace in traced.traces] == [verbs] * teams
