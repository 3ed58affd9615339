"""Checks of the hooks: put in, taken out, and what else is wrapped around them."""

from __future__ import annotations

import asyncio
from abc import ABC
from contextlib import contextmanager
from importlib.metadata import requires
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import wrapt

from orchtrace_otel import adapter as adapters
from orchtrace_otel.testing._kit import check
from orchtrace_otel.testing._recordings import drive, names_of_ours
from orchtrace_otel.testing._shapes import difference, shape
from orchtrace_otel.testing._teams import AdapterTeams
from orchtrace_otel.testing.strict import watch

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


class HookChecks(AdapterTeams, ABC, kit=True):
    """How an adapter goes in and out."""

    @check
    def test_instrumenting_twice_is_once(self) -> None:
        """In twice, or in again after it was out, is in once; each needs its uninstrument().

        Troubleshooting: put hooks in through Patches in instrument() alone, never when the
        module is imported or the adapter is made.
        """
        scenario, way = self._richest(), self._ways()[0]
        wanted = {shape(t) for one, t in self._traces(scenario) if one.way == way}
        adapter = self.make_adapter()
        with adapters.alone(adapter):
            pass
        with watch() as watched, adapters.alone(adapter) as handle:
            adapters.hold(adapter)
            drive(self, way, self._team(scenario, self._look_away))
            handle.uninstrument()
            drive(self, way, self._team(scenario, self._look_away))
        found = watched.captured.traces
        must = "two runs while it is in, once or twice, must give two traces"
        self.must(len(found) == len((1, 2)), must, len(found))
        for trace in found:
            came = difference(min(wanted), shape(trace)) if shape(trace) not in wanted else ""
            self.must(not came, "each must be like the run of an adapter that is in once", came)

    @check
    def test_uninstrument_restores_the_originals(self) -> None:
        """Everything that was wrapped is the very object again, and may be wrapped again.

        Troubleshooting: wrap through `Patches` and call its undo(); name in `seams` what
        is wrapped otherwise.
        """
        adapter = self.make_adapter()
        for round_ in ("first", "second"):
            with _recording_patches() as wrapped:
                before = {(id(o), n): _held(o, n) for o, n in self.seams()}
                with adapters.alone(adapter):
                    pass
            seams = [*((o, n, before[id(o), n]) for o, n in self.seams()), *wrapped]
            self.must(
                seams, "the adapter must wrap something", "nothing that Patches or seams know"
            )
            for owner, name, original in seams:
                now = _held(owner, name)
                must = f"{_path(owner)}.{name} must be the original after the {round_} uninstrument"
                self.must(now is original, must, f"{now!r}")

    @check
    def test_signatures_are_kept(self) -> None:
        """What is wrapped has the name, the documentation and the signature of the original.

        Troubleshooting: `Patches.wrap` keeps them; what is put in by `replace` must by itself.
        """
        declared = [(owner, name, _held(owner, name)) for owner, name in self.seams()]
        with _recording_patches() as wrapped, adapters.alone(self.make_adapter()):
            functions = _functions([*wrapped, *declared])
            # What an owner inherited has no face of its own to keep.
            seams = [seam for seam in functions if seam[2] is not _ABSENT]
            traced = [_face(owner, name) for owner, name, _ in seams]
        for (owner, name, _), came in zip(seams, traced, strict=True):
            wanted = _face(owner, name)
            must = f"{_path(owner)}.{name} must look like {wanted} while it is wrapped"
            self.must(came == wanted, must, came)

    @check
    def test_nothing_is_traced_after_uninstrument(self) -> None:
        """Once it is out, a run gives no span, and neither does a team built before.

        Troubleshooting: wrap classes or modules, not instances; wrappers must ask whether
        they are active, which those of Patches do.
        """
        scenario = self._richest()
        for way in self._ways():
            with watch() as watched:
                with adapters.alone(self.make_adapter()):
                    team = self._team(scenario, self._look_away)
                drive(self, way, team)
                drive(self, way, self._team(scenario, self._look_away))
            came = names_of_ours(watched.captured.spans)
            self.must(not came, f"{scenario} by {way}() must not be traced any more", came)

    @check
    def test_a_run_that_is_open_then_ends(self) -> None:
        """A run that goes on after the adapter was taken out ends every span that it began.

        Troubleshooting: what ends a run must be in hand before it begins, such as a frame of
        ours, or a hook that `Patches.wrap(..., outlives=True)` put in.
        """
        self.skip_unless("can_wait", "an agent cannot await there")

        async def take_out() -> None:
            is_waiting, may_end = asyncio.Event(), asyncio.Event()

            async def wait() -> None:
                is_waiting.set()
                await may_end.wait()

            with adapters.alone(self.make_adapter()):
                running = asyncio.ensure_future(self.ainvoke(self.waiting(wait)))
                await asyncio.wait_for(is_waiting.wait(), 60)
            may_end.set()
            await running

        with watch() as watched:
            asyncio.run(take_out())
        still = [*watched.captured.open.values()]
        self.must(not still, "a run must end every span, though its hooks are out", still)
        found = len(watched.captured.traces)
        self.must(found == 1, "a run that ends when its hooks are out must give a trace", found)

    @check
    def test_wrappers_of_others_survive(self) -> None:
        """What another tool has wrapped around ours stays, works, and traces nothing.

        Troubleshooting: restore an original only where the attribute still is our wrapper.
        """
        adapter = self.make_adapter()
        calls: list[str] = []
        theirs: list[tuple[Any, str, Any, Any]] = []
        scenario, way = self._richest(), self._ways()[0]
        declared = [(owner, name, _held(owner, name)) for owner, name in self.seams()]
        with watch() as watched, _recording_patches() as wrapped:
            try:
                with adapters.alone(adapter):
                    for owner, name, original in _functions([*wrapped, *declared]):
                        theirs.append((owner, name, original, _counting(owner, name, calls)))
                drive(self, way, self._team(scenario, self._look_away))
                lost = [n for o, n, _, mine in theirs if _held(o, n) is not mine]
            finally:
                for owner, name, original, _ in theirs:
                    _restore(owner, name, original)
        self.must(theirs, "the adapter must wrap a function", "none")
        self.must(not lost, "another tool's wrapper must survive our uninstrument", lost)
        self.must(calls, "another tool's wrapper must still be called", "no call")
        came = names_of_ours(watched.captured.spans)
        self.must(not came, "what it wraps of ours must do nothing any more", came)

    @check
    def test_the_extra_asks_for_the_versions_that_were_tried(self) -> None:
        """The range of versions in `requires` is that of the distribution's extra.

        Troubleshooting: they are written twice, on the class and in pyproject.toml; install
        the distribution anew after changing the latter.
        """
        from packaging.requirements import Requirement  # noqa: PLC0415 - of the core's dependencies

        adapter = self.make_adapter()
        wanted = {name: str(spec) for name, spec in _specifiers(adapter.requires).items()}
        self.must(wanted, "requires must name the framework's distribution", "nothing")
        found: dict[str, str] = {}
        for line in requires(self.distribution) or ():
            requirement = Requirement(line)
            marker = str(requirement.marker or "")
            if f'extra == "{adapter.extra}"' in marker:
                found[requirement.name] = str(requirement.specifier)
        came = {name: found.get(name, "nothing") for name in wanted}
        must = f"the extra {adapter.extra!r} of {self.distribution} must ask for {wanted}"
        self.must(came == wanted, must, came)


def _specifiers(requirements: Any) -> dict[str, Any]:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - of the core's dependencies

    return {name: SpecifierSet(spec) for name, spec in requirements.items()}


_ABSENT: Final = "nothing of its own"


def _held(owner: Any, name: str) -> Any:
    """What an owner itself holds under a name, not what it inherits."""
    own: dict[str, Any] = owner.__dict__
    return own.get(name, _ABSENT)


def _restore(owner: Any, name: str, original: Any) -> None:
    if original is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, original)


def _path(owner: Any) -> str:
    named = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None)
    return str(named or repr(owner))


@contextmanager
def _recording_patches() -> Generator[list[tuple[Any, str, Any]], None, None]:
    """Note what `Patches` wrap or replace, with what was there before."""
    wrapped: list[tuple[Any, str, Any]] = []
    wrap, replace = adapters.Patches.wrap, adapters.Patches.replace

    def noting_wrap(
        self: adapters.Patches, owner: Any, name: str, wrapper: Any, **options: Any
    ) -> None:
        before = _held(owner, name)
        wrap(self, owner, name, wrapper, **options)
        wrapped.append((owner, name, before))

    def noting_replace(self: adapters.Patches, owner: Any, name: str, value: Any) -> None:
        before = _held(owner, name)
        replace(self, owner, name, value)
        wrapped.append((owner, name, before))

    adapters.Patches.wrap = noting_wrap  # type: ignore[method-assign] # put back below
    adapters.Patches.replace = noting_replace  # type: ignore[method-assign] # put back below
    try:
        yield wrapped
    finally:
        adapters.Patches.wrap = wrap  # type: ignore[method-assign] # as it was
        adapters.Patches.replace = replace  # type: ignore[method-assign] # as it was


def _functions(wrapped: Sequence[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """Every seam that holds a function, once, with what was there first."""
    found: dict[tuple[int, str], tuple[Any, str, Any]] = {}
    for owner, name, original in wrapped:
        if callable(getattr(owner, name, None)):
            found.setdefault((id(owner), name), (owner, name, original))
    return list(found.values())


def _face(owner: Any, name: str) -> tuple[str, ...]:
    """What documentation and inspection see of a function."""
    function = getattr(owner, name)
    try:
        parameters = str(signature(function))
    except (TypeError, ValueError):  # some functions in C have none
        parameters = ""
    return (str(getattr(function, "__name__", "")), parameters, str(function.__doc__))


def _counting(owner: Any, name: str, calls: list[str]) -> Any:
    """Wrap what is there, as another tool would."""

    def counting(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        calls.append(name)
        return wrapped(*args, **kwargs)

    mine = wrapt.FunctionWrapper(_held(owner, name), counting)
    setattr(owner, name, mine)
    return mine
