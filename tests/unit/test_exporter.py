"""What an exporter is, and how one is found by its name."""

from __future__ import annotations

from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.exporter import GROUP, TraceExporter, open_exporter


class Fake:
    """An exporter that knows its target."""

    def __init__(self, target: str) -> None:
        self.target = target

    def export(self, trace: Any) -> None: ...

    def amend(self, run_id: str, reward: Any) -> None: ...

    def flush(self, timeout_s: float) -> None: ...

    def shutdown(self) -> None: ...


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One exporter is installed, called fake."""

    def entry_points(*, group: str) -> list[Any]:
        assert group == GROUP == "orchtrace.exporter"
        return [SimpleNamespace(name="fake", load=lambda: Fake)]

    monkeypatch.setattr(metadata, "entry_points", entry_points)


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ("fake:traces/", "traces/"),
        ("fake:https://host:4318/v1", "https://host:4318/v1"),
        ("fake:C:\\traces", "C:\\traces"),
        ("fake:", ""),
        ("fake", ""),
    ],
)
def test_a_spec_is_a_name_and_a_target(spec: str, target: str) -> None:
    """What stands behind the first colon is the factory's, colons and all."""
    opened = open_exporter(spec)
    assert isinstance(opened, Fake)
    assert opened.target == target
    assert isinstance(opened, TraceExporter)


@pytest.mark.parametrize("spec", ["unknown:x", "", ":x", "traces/", "FAKE:x"])
def test_a_name_that_is_not_installed_is_refused(spec: str) -> None:
    """The message says the form, the names there are, and what came."""
    with pytest.raises(ConfigError) as caught:
        open_exporter(spec)
    assert str(caught.value) == (
        f"exporters need the form 'name:target' with one of the names fake, got {spec!r}"
    )


def test_without_any_installed_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list would read as if the message broke off."""
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [])
    with pytest.raises(ConfigError, match="none is found, for the metadata"):
        open_exporter("jsonl:traces/")


@pytest.mark.parametrize("missing", ["export", "amend", "flush", "shutdown"])
def test_all_four_methods_make_an_exporter(missing: str) -> None:
    """An object that lacks one is none."""
    methods: dict[str, Any] = dict.fromkeys(("export", "amend", "flush", "shutdown"), print)
    assert isinstance(SimpleNamespace(**methods), TraceExporter)
    del methods[missing]
    assert not isinstance(SimpleNamespace(**methods), TraceExporter)
