"""Turning content on: from what `configure` was given, and from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchtrace_otel._guard import warn_once
from orchtrace_otel.content import gate
from orchtrace_otel.content.capture import Capture, as_capture
from orchtrace_otel.content.folders import Folder, LocalFolder, open_folder
from orchtrace_otel.content.key import key_in
from orchtrace_otel.content.notes import Notes
from orchtrace_otel.content.recorder import Recorder
from orchtrace_otel.content.writer import Writer
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.settings import CAPTURE_MODES, CAPTURE_VARIABLE, NO_CONTENT, Settings

_SHUTDOWN_SECONDS = 10.0


def wanted(given: str | Mapping[str, Any] | Capture | None, settings: Settings) -> Capture | None:
    """Return what is to be captured; None where that stays as it is.

    Args:
        given: What `configure` was given.
        settings: What the environment says; it counts where nothing was given, ever.

    Raises:
        ConfigError: If something does not hold what it must.
    """
    if given is None:
        return None if gate.active() is not None else _of_environment(settings)
    capture = as_capture(given)
    if capture.store is None and settings.store is not None:
        capture = replace(capture, store=settings.store)
    if capture.mode == "EVENT_ONLY" and capture.store is None:
        msg = (
            "content 'EVENT_ONLY' goes to a store, got none; set ORCHTRACE_STORE or "
            "content={'mode': 'EVENT_ONLY', 'store': 'content/'}"
        )
        raise ConfigError(msg)
    return capture


def _of_environment(settings: Settings) -> Capture:
    mode = (settings.otel or {}).get(CAPTURE_VARIABLE, "").strip()
    if mode and mode.upper() not in CAPTURE_MODES:
        warn_once(
            "content_mode_unknown",
            "%s must be one of %s, got %r: no content is captured",
            CAPTURE_VARIABLE,
            ", ".join(CAPTURE_MODES),
            mode,
        )
    capture = Capture(mode=settings.capture, store=settings.store)
    if capture.in_store and capture.store is None:
        warn_once(
            "content_without_store",
            "%s is %s, but ORCHTRACE_STORE names no store: %s",
            CAPTURE_VARIABLE,
            capture.mode,
            "content goes on spans alone" if capture.on_spans else "no content is captured",
        )
        mode = "SPAN_ONLY" if capture.on_spans else NO_CONTENT
        return replace(capture, mode=mode)
    return capture


def set_up(capture: Capture, key: str | None) -> Recorder | None:
    """Capture content from now on as `capture` says; what was set up before is shut down.

    Args:
        capture: What is captured.
        key: Key of hashes; the store's own unless given.

    Raises:
        ConfigError: If the store cannot be used.
        MissingDependencyError: If what it needs is not installed.
    """
    recorder = recorder_for(capture, key)
    switch_to(recorder)
    return recorder


def recorder_for(capture: Capture, key: str | None) -> Recorder | None:
    """Return what would capture as `capture` says; None where nothing is to be. See `set_up`."""
    if capture.mode == NO_CONTENT:
        return None
    folder = open_folder(capture.store) if capture.in_store and capture.store else None
    return _recorder(capture, folder, key)


def switch_to(recorder: Recorder | None) -> None:
    """Capture with `recorder` from now on; what did so before is shut down."""
    before = gate.use(recorder)
    if before is not None:
        before.shutdown(_SHUTDOWN_SECONDS)


def _recorder(capture: Capture, folder: Folder | None, key: str | None) -> Recorder:
    if folder is None:
        return Recorder(capture, key)
    recorder = Recorder(capture, key or key_in(folder))
    notes = Notes(folder.path, recorder.losses) if isinstance(folder, LocalFolder) else None
    recorder.writer = Writer(folder, capture, recorder.lose, notes)
    return recorder
