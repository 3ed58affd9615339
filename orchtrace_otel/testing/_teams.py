"""What an adapter's author fills in, and how its teams are run and recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from orchtrace_otel import adapter as adapters
from orchtrace_otel.testing._kit import Kit
from orchtrace_otel.testing._recordings import (
    WAYS,
    Outcome,
    Recording,
    drive,
    looking,
)
from orchtrace_otel.testing.strict import watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from orchtrace_otel.adapter import Adapter
    from orchtrace_otel.model import Trace


CANARY: Final = "canary-7f3a"
"""Stands for content: put it into every prompt, answer, state and argument of a team."""

TOKENS: Final = (7, 3)
"""Tokens that the model of `calling_model` says it read and wrote."""

CONCURRENT: Final = 20
"""Runs at once in the check that runs do not mix."""

_SCENARIOS: Final = (
    ("single", None),
    ("failing", None),
    ("handing_off", "can_hand_off"),
    ("calling_tool", "can_call_tools"),
    ("calling_model", "can_call_models"),
    ("fanning_out", "can_fan_out"),
    ("nested", "can_nest"),
)


class Replayed(NamedTuple):
    """A team that can be run again.

    Attributes:
        run: Runs it to its end, once, and returns what it gave.
        target: From that to what `counterfactual` is given.
        kept: Returns what the host keeps, so that equal ones compare equal.
    """

    run: Callable[[], Any]
    target: Callable[[Any], Any]
    kept: Callable[[], Any]


class AdapterTeams(Kit, ABC, kit=True):
    """Teams of the framework, and the ways to run them.

    Teams are built fresh for each run and must do the same each time. Their agents are
    called as the methods say, since checks look for these names.

    Attributes:
        can_invoke: Whether teams run to their end without asyncio.
        can_ainvoke: Whether teams run to their end under asyncio.
        can_stream: Whether what happens can be iterated over.
        can_astream: Whether it can be iterated over under asyncio.
        can_hand_off: Whether one agent can follow another.
        can_call_tools: Whether the framework has tools.
        can_call_models: Whether the framework has models.
        can_fan_out: Whether agents can work at once and be joined.
        can_nest: Whether an agent can contain a team.
        can_wait: Whether an agent can await; its run is then cancelled.
        can_replay: Whether `Adapter.replayer` runs recorded teams again.
        distribution: The distribution whose extra installs the framework.
    """

    can_invoke: ClassVar[bool] = False
    can_ainvoke: ClassVar[bool] = False
    can_stream: ClassVar[bool] = False
    can_astream: ClassVar[bool] = False
    can_hand_off: ClassVar[bool] = False
    can_call_tools: ClassVar[bool] = False
    can_call_models: ClassVar[bool] = False
    can_fan_out: ClassVar[bool] = False
    can_nest: ClassVar[bool] = False
    can_wait: ClassVar[bool] = False
    can_replay: ClassVar[bool] = False
    distribution: ClassVar[str] = "orchtrace-otel"

    # --- what an author fills in ------------------------------------------------------

    @abstractmethod
    def make_adapter(self) -> Adapter:
        """Return a new adapter that is not put in yet."""

    @abstractmethod
    def single(self, look: Callable[[], None]) -> Any:
        """Build a team of one agent `worker`, whose code calls `look` once."""

    @abstractmethod
    def failing(self, error: Exception) -> Any:
        """Build a team whose only agent `worker` raises `error`."""

    def handing_off(self) -> Any:
        """Build a team in which an agent `second` follows an agent `first`."""
        raise NotImplementedError

    def calling_tool(self, look: Callable[[], None]) -> Any:
        """Build a team of `worker`, which calls a tool `lookup` that calls `look` once."""
        raise NotImplementedError

    def calling_model(self, look: Callable[[], None]) -> Any:
        """Build a team of `worker`, which asks a model once that calls `look`, for `TOKENS`."""
        raise NotImplementedError

    def fanning_out(self) -> Any:
        """Build a team in which `left` and `right` work at once, and then `merge`."""
        raise NotImplementedError

    def nested(self, look: Callable[[], None]) -> Any:
        """Build a team whose agent `outer` contains an agent `inner`, which calls `look`."""
        raise NotImplementedError

    def waiting(self, wait: Callable[[], Awaitable[None]]) -> Any:
        """Build a team of `worker`, which awaits `wait()` once."""
        raise NotImplementedError

    def replayed(self, look: Callable[[str], None]) -> Replayed:
        """Build a team in which `second` follows `first`, and each calls `look` by its name."""
        raise NotImplementedError

    def invoke(self, team: Any) -> Any:
        """Run a team to its end."""
        raise NotImplementedError

    async def ainvoke(self, team: Any) -> Any:
        """Run a team to its end under asyncio."""
        raise NotImplementedError

    def stream(self, team: Any) -> Iterator[Any]:
        """Return the iterator of what happens in a team: the framework's own, unwrapped."""
        raise NotImplementedError

    def astream(self, team: Any) -> AsyncIterator[Any]:
        """Return the asynchronous iterator of what happens: the framework's own."""
        raise NotImplementedError

    def plain(self, result: Any) -> Any:
        """Return a result, or an item of a stream, so that equal ones compare equal."""
        return result

    def seams(self) -> Sequence[tuple[Any, str]]:
        """Return what the adapter wraps beside its `Patches`: owners and attributes."""
        return ()

    # --- runs

    _recorded: ClassVar[dict[type, list[Recording]]] = {}
    _untraced: ClassVar[dict[tuple[type, str, str], Outcome]] = {}

    def _ways(self) -> list[str]:
        ways = [way for way in WAYS if getattr(self, f"can_{way}")]
        self.must(ways, "a way to run a team must be declared, such as can_invoke", "none")
        return ways

    def _scenarios(self) -> list[str]:
        return [name for name, flag in _SCENARIOS if flag is None or getattr(self, flag)]

    def _richest(self) -> str:
        order = ("fanning_out", "handing_off", "calling_tool", "single")
        return next(name for name in order if name in self._scenarios())

    def _team(self, scenario: str, look: Callable[[], None], error: Exception | None = None) -> Any:
        if scenario == "failing":
            return self.failing(error or ValueError(f"{CANARY} of an error"))
        if scenario in ("single", "calling_tool", "calling_model", "nested"):
            return getattr(self, scenario)(look)
        return getattr(self, scenario)()

    def _look_away(self) -> None:
        """Stand for code of agents where nobody looks."""

    def _outcome(self, scenario: str, way: str) -> Outcome:
        """Run a team without the adapter, once a class."""
        key = (type(self), scenario, way)
        if key not in self._untraced:
            outcome = drive(self, way, self._team(scenario, self._look_away))
            has_failed = outcome.error is not None
            must = f"the team {scenario!r} must run untraced by {way}()"
            if scenario == "failing":
                must = f"the team 'failing' must raise untraced by {way}()"
            self.must(has_failed == (scenario == "failing"), must, repr(outcome.error))
            self._untraced[key] = outcome
        return self._untraced[key]

    def _record(self, scenario: str, way: str) -> Recording:
        seen: list[str] = []
        with watch() as watched, adapters.alone(self.make_adapter()):
            outcome = drive(self, way, self._team(scenario, looking(seen)))
        return Recording(scenario, way, watched, outcome, seen)

    def _recordings(self, *scenarios: str) -> list[Recording]:
        """Return every scenario run in every way, recorded once a class."""
        known = self._recorded.get(type(self))
        if known is None:
            for scenario in self._scenarios():
                for way in self._ways():
                    self._outcome(scenario, way)
            known = [
                self._record(scenario, way)
                for scenario in self._scenarios()
                for way in self._ways()
            ]
            self._recorded[type(self)] = known
        return [one for one in known if not scenarios or one.scenario in scenarios]

    def _traces(self, *scenarios: str) -> Iterator[tuple[Recording, Trace]]:
        for one in self._recordings(*scenarios):
            trace = one.trace
            if trace is None:
                self.fail(f"{one.name} must give one trace", len(one.captured.traces))
            yield one, trace

    def _plainly(self, outcome: Outcome) -> Any:
        if outcome.items is not None:
            return [self.plain(item) for item in outcome.items]
        return None if outcome.result is None else self.plain(outcome.result)
