"""Slots, parts and which of them lead to which."""

from orchtrace_otel.replay import Change, Part, Slot, describe, find_slots
from orchtrace_otel.replay.players import agents_of
from orchtrace_otel.replay.precedence import find_causes
from orchtrace_otel.testing.world import make_world


def test_ordinals_count_by_sender_and_receiver() -> None:
    """In a debate each pair has its own count, one a round."""
    world = make_world(1, "debate")
    slots = list(find_slots(world.trace))
    pairs = {slot[:2] for slot in slots}
    for pair in pairs:
        ordinals = [slot.ordinal for slot in slots if slot[:2] == pair]
        assert ordinals == list(range(1, len(ordinals) + 1))


def test_agents_are_those_that_worked() -> None:
    """Neither the user, nor the root, nor a tool."""
    world = make_world(4, "centralized")
    named = {part.name for part in agents_of(world.trace)}
    assert named == {e.agent for e in world.trace.events if e.verb == "return"}


def test_messages_lead_to_what_was_written_after_reading_them() -> None:
    """In a debate the first round leads to the second; within one only the sender's own do."""
    world = make_world(1, "debate")
    players = list(find_slots(world.trace))
    causes = find_causes(world.trace, players)
    for slot, before in zip(players, causes, strict=True):
        sources = [p for at, p in enumerate(players) if before >> at & 1]
        assert all(s.ordinal < slot.ordinal or s.sender == slot.sender for s in sources)
        if slot.ordinal == 2:
            assert {s.sender for s in sources} >= {
                p.sender for p in players if p.receiver == slot.sender and p.ordinal == 1
            }


def test_agents_have_no_order() -> None:
    """An agent is no event: any coalition of agents can be played."""
    world = make_world(1, "debate")
    assert set(find_causes(world.trace, world.agents)) == {0}


def test_a_change_is_the_same_text_whatever_the_order() -> None:
    """Journals find a change again in another process."""
    a, b = Part("agent", "a"), Slot("x", "y", 1)
    assert Change(without=frozenset([a, b])).key() == Change(without=frozenset([b, a])).key()
    assert Change(without=frozenset([a])).key() != Change(anew=frozenset([a])).key()
    assert Change(without=frozenset([a]), edits={b: 1}, anew=frozenset()).touched == {a, b}


def test_players_are_named_for_people() -> None:
    """A message by its way, a part by its kind."""
    assert describe(Slot("a", "b", 3)) == "a -> b #3"
    assert describe(Part("role", "critic")) == "role critic"
