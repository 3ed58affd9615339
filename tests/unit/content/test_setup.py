"""Turning content on: by an argument, by the environment, and what is refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.content import Capture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No variable is set, and nothing is configured afterwards."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("ORCHTRACE_STORE", raising=False)
    yield monkeypatch
    orchtrace.shutdown()
    content.use_key(None)


def configure(**more: Any) -> Any:
    orchtrace.configure(TracerProvider(shutdown_on_exit=False), exporters=[], **more)
    recorder = content.active()
    return None if recorder is None else recorder.capture


def test_content_is_off_unless_asked_for(tmp_path: Path) -> None:
    """A store alone turns nothing on."""
    assert configure() is None
    assert configure(content="NO_CONTENT") is None


@pytest.mark.parametrize("value", ["true", "1", "ALL", "yes"])
def test_an_unknown_value_of_the_environment_turns_nothing_on(
    environment: pytest.MonkeyPatch, value: str
) -> None:
    """As the conventions say."""
    environment.setenv(VARIABLE, value)
    assert configure() is None


def test_the_environment_turns_it_on(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Mode and store; what is given to `configure` goes before it, and stays."""
    environment.setenv(VARIABLE, "span_and_event")
    environment.setenv("ORCHTRACE_STORE", str(tmp_path))
    found = configure()
    assert (found.mode, found.store) == ("SPAN_AND_EVENT", str(tmp_path))
    given = configure(content={"mode": "EVENT_ONLY", "item_bytes": 7})
    assert (given.mode, given.store, given.item_bytes) == ("EVENT_ONLY", str(tmp_path), 7)
    assert configure() is given
    assert configure(content="NO_CONTENT") is None


@pytest.mark.parametrize(("mode", "kept"), [("EVENT_ONLY", None), ("SPAN_AND_EVENT", "SPAN_ONLY")])
def test_a_store_that_is_missing_costs_what_goes_there(
    environment: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    kept: str | None,
) -> None:
    """An application that sets the variable for others must not fail on it."""
    environment.setattr("orchtrace_otel._guard._told", set())
    environment.setenv(VARIABLE, mode)
    found = configure()
    assert (None if found is None else found.mode) == kept
    assert "ORCHTRACE_STORE names no store" in caplog.text


def test_a_mode_that_nobody_knows_is_told(
    environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is captured, as the conventions say; that it was misspelt is warned of."""
    environment.setattr("orchtrace_otel._guard._told", set())
    environment.setenv(VARIABLE, "yes")
    assert configure() is None
    assert "must be one of NO_CONTENT, SPAN_ONLY" in caplog.text
    assert "got 'yes': no content is captured" in caplog.text


WRONG: dict[str, tuple[Any, str]] = {
    "mode": ("all", "content must be one of NO_CONTENT, .* got 'all'"),
    "kind": (7, "content must be one of .* or a mapping with keys of mode, .* got 7"),
    "key": ({"modes": "SPAN_ONLY"}, "got 'modes'"),
    "no store": ("EVENT_ONLY", "goes to a store, got none; set ORCHTRACE_STORE"),
    "empty store": ({"mode": "EVENT_ONLY", "store": ""}, "a folder or a URL, got ''; or leave"),
    "no place": ({"mode": "EVENT_ONLY", "store": 5}, "a folder or a URL, got 5; or leave it out"),
    "size": ({"item_bytes": 0}, "item_bytes to be a whole number above 0, got 0"),
    "flag": ({"run_bytes": True}, "run_bytes to be a whole number above 0, got True"),
    "share": ({"span_bytes": 1.5}, "span_bytes to be a whole number above 0, got 1.5"),
    "time": ({"flush_seconds": "1"}, "flush_seconds to be a number above 0, got '1'"),
    "defaults": ({"redact_defaults": "no"}, "redact_defaults to be True or False, got 'no'"),
    "keys": ({"redact_keys": "iban"}, "redact_keys to be a list of texts, got 'iban'"),
    "pattern": ({"redact_patterns": ["("]}, r"redact_patterns that compile, got '\('"),
    "function": ({"redact": "x"}, "redact to be callable with a text, got 'x'"),
    "policy": ({"policy": {"name": "x"}}, "policy to be a mapping of version, .* got"),
    "policy's": ({"policy": {"version": 3}}, "policy to be a mapping of .* to texts, got .*3"),
    "url": ({"mode": "EVENT_ONLY", "store": "nowhere://u:pw@x/y"}, "fsspec knows, got 'nowhere://x/y'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_refused_and_changes_nothing(name: str) -> None:
    """What must hold, what came, what to do; passwords in URLs are told nobody."""
    given, told = WRONG[name]
    before = configure(content="SPAN_ONLY")
    with pytest.raises(orchtrace.ConfigError, match=told) as caught:
        configure(content=given)
    assert "pw" not in str(caught.value)
    recorder = content.active()
    assert recorder is not None
    assert recorder.capture is before


def test_a_store_whose_library_is_missing_says_which_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """fsspec knows of more kinds of stores than it has libraries for."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(orchtrace.MissingDependencyError, match=r"; run: pip install s3fs$"):
        configure(content={"mode": "EVENT_ONLY", "store": "s3://user:pw@bucket/x"})


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """When the process is set up, not when the first content comes."""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file")
    with pytest.raises(orchtrace.ConfigError, match="must be a folder that can be written"):
        configure(content=Capture(mode="EVENT_ONLY", store=in_the_way))
    assert content.active() is None
