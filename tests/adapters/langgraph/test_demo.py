"""The team of `orchtrace demo`."""


def test_the_demo_is_a_research_team_that_stops(traced, read):
    """A supervisor, four researchers at once with a tool each, a join, a critic, a stop."""
    from orchtrace_langgraph import LangGraphAdapter

    result = LangGraphAdapter().demo()
    assert "approved" in result["verdict"]
    trace = traced.trace
    researchers = {f"researcher#{n}" for n in range(1, 5)}
    assert read.triggers(trace) == {
        "supervisor#1": [{"research team#1"}],
        **{name: [{"supervisor#1"}] for name in sorted(researchers)},
        "editor#1": [researchers],
        "critic#1": [{"editor#1"}],
    }
    calls = [event for event in trace.events if event.verb == "tool_call"]
    assert [(call["tool"], len(call["turns"])) for call in calls] == [("look_up", 1)] * 4
    assert len(trace.turns) == 1 + 4 * 2 + 1
    assert trace.costs["tokens"] == sum(turn.tokens or 0 for turn in trace.turns)
    assert trace.metrics is not None
    assert trace.metrics["turns_without_usage"] == 0
    assert read.stop(trace) == ("information_complete", "ok", None)
    assert trace.system == "langgraph"


def test_the_demo_says_the_same_each_time(traced):
    """Scripted models: two runs end in equal states."""
    from orchtrace_langgraph import demo

    assert demo.run() == demo.run()
    assert demo.TITLE
