"""Who triggered whom as a trace's JSON says it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.adapters.autogen.noted_turns import Turn, Turns


class Read:
    """What a trace's JSON says about causes, by the definition of triggers alone.

    The triggers of an activation are the owners of the sources of all edges other than
    temporal, message and return into events that it owns, its own descendants aside,
    followed back (there through return too) through instants that an orchestrator around
    it owns.
    """

    def __init__(self, trace: Mapping[str, Any]) -> None:
        self.events = {event["id"]: event for event in trace["events"]}
        self.parents: dict[str, str | None] = {}
        self.names: dict[str, Turn] = {}
        counted: Counter[str] = Counter()
        opened = [e for e in trace["events"] if e["id"] == f"{e.get('activation')}.open"]
        for event in opened:
            counted[event["to"]] += 1
            self.names[event["activation"]] = Turn(event["to"], counted[event["to"]])
            self.parents[event["activation"]] = event.get("parent")
        self.into: dict[str, list[tuple[str, str]]] = {}
        self.owned: dict[str, list[str]] = {}
        for edge in trace["edges"]:
            self.into.setdefault(edge["dst"], []).append((edge["type"], edge["src"]))
        for event in trace["events"]:
            self.owned.setdefault(event["activation"], []).append(event["id"])

    def _around(self, activation: str) -> list[str]:
        found = []
        parent = self.parents[activation]
        while parent is not None:
            found.append(parent)
            parent = self.parents[parent]
        return found

    def triggers(self) -> dict[Turn, Turns]:
        """Return whose work each activation follows from."""
        return {turn: self._triggers(own) for own, turn in self.names.items()}

    def _triggers(self, own: str) -> Turns:
        found: set[str] = set()
        around = self._around(own)
        open_ends = [
            source
            for event in self.owned[own]
            for kind, source in self.into.get(event, ())
            if kind not in {"temporal", "message", "return"}
        ]
        seen: set[str] = set()
        while open_ends:
            source = open_ends.pop()
            owner = self.events[source]["activation"]
            if source in seen or owner == own or own in self._around(owner):
                continue
            seen.add(source)
            if "." not in source and owner in around:
                more = self.into.get(source, ())
                open_ends += [cause for kind, cause in more if kind not in {"temporal", "message"}]
            else:
                found.add(owner)
        return frozenset(self.names[owner] for owner in found)

    def informants(self) -> dict[Turn, Turns]:
        """Return whose messages each activation read."""
        return {
            turn: frozenset(
                self.names[self.events[source]["activation"]]
                for kind, source in self.into.get(f"{own}.open", ())
                if kind == "message"
            )
            for own, turn in self.names.items()
        }

    def tools(self) -> Counter[Turn]:
        """Return how many tools each activation called."""
        calls = (e["activation"] for e in self.events.values() if e["verb"] == "tool_call")
        return Counter(self.names[own] for own in calls)
