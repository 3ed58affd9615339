"""What is announced, sent or came back is the cause of what is done next."""

import asyncio

import orchtrace_otel as orchtrace
from tests.trees import edges, recording, tree
from tests.unit.verbs.crew import critic, look_up, writer


def test_a_call_after_an_announced_spawn_begins_from_it() -> None:
    """The spawn is the instant, the call begins what was announced, a second one is new work."""

    @orchtrace.team
    def team() -> None:
        orchtrace.spawn("critic")
        critic()
        critic()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  spawn to critic < causal team#1.open\n"
        "  critic#1 begin < spawn spawn\n"
        "  critic#1.close\n"
        "  critic#1:2 delegate < causal spawn, return critic#1.close\n"
        "  critic#1:2.close\n"
        "  stop information_complete < causal spawn, return critic#1:2.close"
    )


def test_a_call_after_an_announced_delegation_begins_from_it() -> None:
    """The same life is used again; its cause is the delegation."""

    @orchtrace.team
    def team() -> None:
        critic()
        orchtrace.delegate("critic", task="the canary")
        critic()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  critic#1 spawn < spawn team#1.open\n"
        "  critic#1.close\n"
        "  delegate to critic < causal team#1.open, return critic#1.close\n"
        "  critic#1:2 begin < causal delegate\n"
        "  critic#1:2.close\n"
        "  stop information_complete < causal delegate, return critic#1:2.close"
    )
    assert "canary" not in captured.trace.to_json()


def test_several_announcements_of_one_agent_are_used_one_by_one() -> None:
    """A loop that delegates first and gathers then gives each call its own cause."""

    @orchtrace.agent
    async def worker(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @orchtrace.team
    async def team() -> None:
        for _ in range(2):
            orchtrace.spawn("worker")
        await asyncio.gather(worker(1), worker(2))

    with recording() as captured:
        asyncio.run(team())
    assert edges(captured.trace) == {
        "team#1.open -causal-> spawn",
        "spawn -causal-> spawn:2",
        "spawn -spawn-> worker#1.open",
        "spawn:2 -spawn-> worker#2.open",
        "spawn:2 -causal-> stop",
        "worker#1.close -return-> stop",
        "worker#2.close -return-> stop",
    }


def test_what_came_back_enters_what_the_caller_does_next() -> None:
    """A return is the cause of the next call, the next instant, or the caller's own close."""

    @orchtrace.agent
    def boss() -> None:
        critic()
        look_up()
        writer()
        orchtrace.decide("done", chosen="yes")

    with recording() as captured:
        boss()
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  boss#1 spawn < spawn orchestrator#1.open\n"
        "    critic#1 spawn < spawn boss#1.open\n"
        "    critic#1.close\n"
        "    look_up.open < causal boss#1.open, return critic#1.close\n"
        "    look_up.close\n"
        "    writer#1 spawn < spawn boss#1.open, tool_dependency look_up.close\n"
        "    writer#1.close\n"
        "    decide done yes < causal boss#1.open, return writer#1.close\n"
        "  boss#1.close < causal decide\n"
        "  stop information_complete < return boss#1.close"
    )


def test_a_message_enters_where_it_is_read() -> None:
    """The recipient's next activation reads all that waits, once, whoever sent it."""

    @orchtrace.agent
    def sender() -> None:
        orchtrace.message("critic", "the canary")
        orchtrace.message("critic", {"also": "the canary"})

    @orchtrace.team
    def team() -> None:
        sender()
        critic()
        critic()

    with recording() as captured:
        team()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  sender#1 spawn < spawn team#1.open\n"
        "    message to critic < causal sender#1.open\n"
        "    message:2 to critic < causal message\n"
        "  sender#1.close < causal message:2\n"
        "  critic#1 spawn"
        " < message message, message message:2, return sender#1.close, spawn team#1.open\n"
        "  critic#1.close\n"
        "  critic#1:2 delegate < causal team#1.open, return critic#1.close\n"
        "  critic#1:2.close\n"
        "  stop information_complete < return critic#1:2.close"
    )
    assert "canary" not in captured.trace.to_json()
