"""What messages were good for (O3): whether they were used, what was new, what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.outcome import check_budget
from orchtrace_otel.rewards.graph import NANOSECONDS, longest_chains
from orchtrace_otel.rewards.others import is_of_others
from orchtrace_otel.rewards.similarity import ngrams

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchtrace_otel.model import Trace


def communication_reward(
    used: float, novelty: float, delay_s: float, budget_s: float, kappa: float = 0.5
) -> float:
    """Return used * novelty - kappa * delay / budget: what a message was worth, from one trace.

    Args:
        used: 1 where it led to the answer, else 0.
        novelty: 1 - the greatest similarity to what its reader held already.
        delay_s: Seconds that it added to the critical path.
        budget_s: Seconds that the run may take.
        kappa: What the whole budget is worth.

    Raises:
        ValueError: If the budget is not above 0.

    Example:
        >>> round(communication_reward(1, 0.5, 1.5, 30), 4)
        0.475
    """
    check_budget(budget_s)
    return used * novelty - kappa * delay_s / budget_s


def message_value(
    success: float, without: float, delay_s: float, budget_s: float, kappa: float = 0.5
) -> float:
    """Return R_msg = [S(T) - S(T without m)] - kappa * delay / budget, from replays.

    A message that changes nothing is taxed by its delay. `without` is a mean over replays:
    never give the number without its interval.

    Raises:
        ValueError: If the budget is not above 0.

    Example:
        >>> round(message_value(1, 3 / 5, 1.5, 30), 4), round(message_value(1, 1, 1.5, 30), 4)
        (0.375, -0.025)
    """
    check_budget(budget_s)
    return (success - without) - kappa * delay_s / budget_s


def reappearing(text: str, later: Iterable[str], n: int = 3) -> float | None:
    """Return the share of a text's runs of `n` characters that come again in later texts.

    None for a text without any. A lexical stand-in for whether a message was used.

    Example:
        >>> reappearing("trains", ["the train left"])
        0.75
    """
    parts = ngrams(text, n)
    if not parts:
        return None
    again = frozenset[str]().union(*(ngrams(one, n) for one in later))
    return len(parts & again) / len(parts)


def messages(facts: Facts) -> Mapping[int, Sequence[int]]:
    """Position of each message to the positions where it was read; ask it through `share`."""
    events = facts.events
    sent = [
        place
        for place in facts.by_type.get("message", ())
        if events[place].keys.get("verb") != "begin"
    ]
    if not sent:
        return {}
    ids = {events[place].id: place for place in sent}
    edges = [edge for edge in facts.trace.edges if edge.type == "message" and edge.src in ids]
    found: dict[int, list[int]] = {place: [] for place in sent}
    if not edges:
        return found
    wanted = {edge.dst for edge in edges}
    places = {event.id: at for at, event in enumerate(events) if event.id in wanted}
    for edge in edges:
        if edge.dst in places:
            found[ids[edge.src]].append(places[edge.dst])
    return found


def awaited(facts: Facts) -> Mapping[int, Sequence[int]]:
    """What waited for each message; ask it through `share`.

    Who read it; in traces of others, which may know no edges of messages, what it led to.
    """
    events = facts.events
    return {
        place: readers or (facts.effects[place] if is_of_others(events[place]) else readers)
        for place, readers in facts.share(messages).items()
    }


def uses(facts: Facts) -> Mapping[int, float] | None:
    """Each message's position to 1 where it led to the answer, else 0; ask it through `share`.

    It did where someone read it and what it did then led to the answer. Being said on the
    way is not enough. One that nobody is known to have read counts where it is the answer or
    leads to it at once, and in traces of others where it leads to the answer at all.
    """
    if not facts.is_causal:
        return None
    found: dict[int, float] = {}
    answer = facts.answer
    last: set[int] = set() if answer is None else {answer, *facts.graph.causes[answer]}
    led = facts.led
    for place, readers in facts.share(messages).items():
        if readers:
            used = any(led[reader] for reader in readers)
        elif is_of_others(facts.events[place]):
            used = led[place]
        else:
            used = place in last
        found[place] = float(used)
    return found


@component(family="R7", unit="message", range=(0, 1), inputs=("message", "edges"))
def message_used(facts: Facts) -> Mapping[int, float] | None:
    """For each message: 1 where it was read and led to the answer, else 0."""
    return facts.share(uses)


@component(family="R7", range=(0, 1), inputs=("message", "edges"))
def messages_used(facts: Facts) -> float | None:
    """Share of messages that were read and led to the answer; absent without messages."""
    found = facts.share(uses)
    return sum(found.values()) / len(found) if found else None


@component(family="R7", range=(0, float("inf")), inputs=("message", "edges"), is_metric=True)
def message_delay(facts: Facts) -> float | None:
    """Seconds that waiting for messages added to the critical path; absent without messages.

    The span less what it would be if nobody had waited for any message.
    """
    if facts.chains is None or not facts.share(messages):
        return None
    return _delay(facts, facts.share(awaited))


def message_delays(trace: Trace) -> dict[str, float]:
    """Return for each message, by id, the seconds that it alone added to the critical path.

    The sheet's delay(m) = span(G) - span(G without m), exact on the graph: without m, nobody
    waits for it. Takes O(V + E) for each message on which its reader's chain depends. Empty
    where times or causes are unknown.

    Example:
        >>> from orchtrace_otel.model import Trace
        >>> message_delays(Trace("run", "task", ()))
        {}
    """
    facts = Facts(trace)
    if facts.chains is None:
        return {}
    return {
        facts.events[place].id: _delay(facts, {place: readers})
        for place, readers in awaited(facts).items()
    }


def _delay(facts: Facts, sent: Mapping[int, Sequence[int]]) -> float:
    """How much shorter the span is where none of these messages is waited for, in seconds."""
    chains = facts.chains or ()
    kept = _without(facts, sent)
    causes = facts.graph.causes
    if all(
        max([chains[at] for at in others], default=None)
        == max([chains[at] for at in causes[place]], default=None)
        for place, others in kept.items()
    ):
        return 0.0  # every reader had to wait as long for something else
    cut = list(causes)
    for place, others in kept.items():
        cut[place] = others
    shorter = longest_chains(facts.graph._replace(causes=cut))
    return (max(chains) - max(shorter)) / NANOSECONDS


def _without(facts: Facts, sent: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """The causes of each reader but for these messages, unless they led to it otherwise too."""
    dropped: dict[int, list[int]] = {}
    for place, readers in sent.items():
        for reader in readers:
            dropped.setdefault(reader, []).append(place)
    found: dict[int, list[int]] = {}
    for reader, gone in dropped.items():
        left = list(facts.graph.causes[reader])
        for place in gone:  # one edge each; a second edge of another type stays
            if place in left:
                left.remove(place)
        found[reader] = left
    return found
