"""Finding adapters, putting them in and taking them out, and the patches they make."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from threading import Barrier
from typing import Any, ClassVar

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard, adapter
from orchtrace_otel.adapter import Adapter, Patches, Shared


class Host:
    """What a framework offers to be patched."""

    def answer(self) -> int:
        """The answer."""
        return 41

    @staticmethod
    def free() -> int:
        """One without a self."""
        return 1


class Special(Host):
    """Inherits everything."""


def one_more(
    wrapped: Callable[..., int], _host: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> int:
    """A wrapper in wrapt's manner."""
    return wrapped(*args, **kwargs) + 1


def test_patches_come_off_as_the_very_originals() -> None:
    """Methods, static methods, inherited ones and replaced values are as before."""
    before = {**vars(Host)}
    patches = Patches()
    patches.wrap(Host, "answer", one_more)
    patches.wrap(Host, "free", one_more)
    patches.wrap(Special, "answer", one_more)
    assert (Host().answer(), Host.free(), Special().answer()) == (42, 2, 43)
    patches.replace(Host, "__doc__", "another")
    patches.undo()
    assert {**vars(Host)} == before
    assert "answer" not in vars(Special)


def test_patches_under_another_tools_wrapper_become_a_pass_through() -> None:
    """What somebody wrapped since is theirs; ours below it does nothing any more."""
    original = Host.answer
    patches = Patches()
    patches.wrap(Host, "answer", one_more)
    ours = Host.answer

    @functools.wraps(ours)
    def theirs(host: Host) -> int:
        return ours(host) * 10

    Host.answer = theirs  # type: ignore[method-assign]
    try:
        assert Host().answer() == 420
        patches.undo()
        assert Host().answer() == 410
        assert Host.answer is theirs
    finally:
        Host.answer = original  # type: ignore[method-assign]


def test_a_patch_of_what_is_not_there_says_so() -> None:
    """A missing hook is the adapter's to handle."""
    with pytest.raises(AttributeError, match="missing"):
        Patches().wrap(Host, "missing", one_more)


class Fake(Adapter):
    """An adapter that counts."""

    name = "fake"
    extra = "fake"
    module = "sys"
    requires: ClassVar[dict[str, str]] = {"pytest": ">=1"}
    calls: ClassVar[list[str]] = []
    fails: ClassVar[Exception | None] = None

    def instrument(self) -> None:
        """Count."""
        self.calls.append("in")
        if self.fails is not None:
            raise self.fails

    def uninstrument(self) -> None:
        """Count."""
        self.calls.append("out")

    def wrap(self, target: Any, name: str, role: str | None) -> Any:
        """Know one kind of object."""
        return (target, name, role) if isinstance(target, Host) else None


class Newer(Fake):
    """Needs what nobody has."""

    name = "newer"
    extra = "newer"
    requires: ClassVar[dict[str, str]] = {"pytest": ">=9999"}


class Absent(Newer):
    """Needs a framework that is not installed."""

    name = "absent"
    requires: ClassVar[dict[str, str]] = {"no-such-framework": ">=1"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only these adapters, and nothing of them left afterwards."""
    entries = {
        kind.name: EntryPoint(kind.name, f"{__name__}:{kind.__name__}", adapter.GROUP)
        for kind in (Fake, Newer, Absent)
    }
    kinds = {"fake": Fake, "newer": Newer, "absent": Absent}
    monkeypatch.setattr(EntryPoint, "load", lambda entry: kinds[entry.name])
    monkeypatch.setattr(adapter, "registered", lambda: entries)
    monkeypatch.setattr(adapter, "_known", {})
    monkeypatch.setattr(adapter, "_active", {})
    monkeypatch.setattr(Fake, "calls", [])
    yield
    assert not any(adapter._active.values())


def test_what_is_shared_is_entered_by_the_first_and_left_by_the_last() -> None:
    """In threads too; where it could not be entered, the next one tries again."""
    seen: list[str] = []

    @contextmanager
    def patched() -> Iterator[None]:
        seen.append("on")
        if len(seen) == 1:
            raise RuntimeError
        yield
        seen.append("off")

    shared = Shared(patched)
    with pytest.raises(RuntimeError), shared.held():
        pass
    together = Barrier(4)

    def hold() -> None:
        with shared.held():
            together.wait(10)
            seen.append("inside")
            together.wait(10)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: hold(), range(4)))
    with shared.held():
        pass
    assert seen == ["on", "on", *["inside"] * 4, "off", "on", "off"]


@pytest.mark.usefixtures("installed")
def test_instrumenting_twice_is_doing_it_once() -> None:
    """The hooks go in with the first user and come out with the last, in any order."""
    first = adapter.instrument(["fake"])
    with adapter.instrument(["fake"]) as second:
        assert second.names == ("threads", "fake")
        first.uninstrument()
        first.uninstrument()
        assert Fake.calls == ["in"]
    assert Fake.calls == ["in", "out"]


@pytest.mark.usefixtures("installed")
def test_what_is_found_but_cannot_be_used_is_left_out_in_silence() -> None:
    """Without names, every adapter whose framework is there and fits."""
    with adapter.instrument([]) as handle:
        assert handle.names == ("threads", "fake")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("newer", r"adapter 'newer' needs pytest>=9999 \(found .*pip install .*\[newer\]"),
        ("absent", r"adapter 'absent' needs no-such-framework>=1 \(found none\).*pip install"),
    ],
)
def test_what_is_asked_for_by_name_must_be_there(name: str, message: str) -> None:
    """The error says what is needed, what was found, and what to run."""
    with pytest.raises(orchtrace.MissingDependencyError, match=message):
        adapter.instrument([name])


@pytest.mark.usefixtures("installed")
def test_a_name_that_nobody_has_is_refused_with_those_that_are_there() -> None:
    """A typing error shows at that line."""
    with pytest.raises(orchtrace.ConfigError, match=r"absent, fake, newer.*got 'fakee'"):
        adapter.instrument(["fakee"])


@pytest.mark.usefixtures("installed")
def test_hooks_that_do_not_fit_are_left_out_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A framework whose inside changed must not stop the host; by name it is told loudly."""
    monkeypatch.setattr(Fake, "fails", AttributeError("PregelLoop has no tick"))
    monkeypatch.setattr(_guard, "_told", set())
    for _ in range(2):
        with adapter.instrument([]) as handle:
            assert handle.names == ("threads",)
    assert [record.getMessage() for record in caplog.records] == [
        "adapter fake does not fit the sys that is installed and is left out "
        "(PregelLoop has no tick)"
    ]
    assert Fake.calls == ["in", "out"] * 2
    with pytest.raises(AttributeError, match="PregelLoop"):
        adapter.instrument(["fake"])
    assert adapter._active == {}  # nothing of the call that failed


@pytest.mark.usefixtures("installed")
def test_an_object_of_a_framework_is_wrapped_by_the_adapter_that_knows_it() -> None:
    """One decorator is enough: the adapter goes in with it."""
    host = Host()
    assert adapter.wrap(host, "answerer", "executor") == (host, "answerer", "executor")
    assert Fake.calls == ["in"]
    assert adapter.wrap(object(), "nothing", None) is None
    adapter._release("fake")  # nothing else takes it out


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("decorate", "came"),
    [
        (lambda host: orchtrace.team(host, task_id="q-1", reward=float), "task_id, reward of Host"),
        (orchtrace.team(tags={"a": "b"}), "tags of Host"),
        (orchtrace.tool, "a tool to be made of Host"),
    ],
)
def test_what_a_framework_s_object_has_no_place_for_is_refused(
    decorate: Callable[[Host], object], came: str
) -> None:
    """It was dropped without a word: runs had no task and no reward."""
    with pytest.raises(orchtrace.ConfigError, match=f"a name alone, got {came}; decorate"):
        decorate(Host())
    adapter._release("fake")
    assert orchtrace.team(Host(), name="desk")[1] == "desk"  # type: ignore[index]
    adapter._release("fake")


def test_where_no_metadata_are_found_set_up_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A frozen application comes without them: neither names nor adapters would be found."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    monkeypatch.setattr(_guard, "_told", set())
    monkeypatch.setattr(adapter, "_known", {})
    with adapter.instrument([]) as handle:
        assert handle.names == ("threads",)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "instrument() puts in no adapter"
    ]
    with pytest.raises(orchtrace.ConfigError, match="are installed, got 'crew'; none is found"):
        adapter.load("crew")
