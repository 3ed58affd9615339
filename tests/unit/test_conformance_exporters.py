"""The exporter kit: exporters of files pass, each broken one is caught."""

import contextlib
import json
import threading
from pathlib import Path

import pytest

from orchtrace_files import JsonlExporter, open_jsonl
from orchtrace_otel.testing.conformance_exporters import ConformanceError, ExporterConformance


class FilesConformance(ExporterConformance):
    can_break = True

    def open(self, folder):
        return open_jsonl(f"{folder}/")

    def read(self, folder):
        return self._lines(folder / "traces.jsonl")

    def read_rewards(self, folder):
        return self._lines(folder / "rewards.jsonl")

    def _lines(self, path: Path):
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def break_target(self, folder):
        path = folder / "traces.jsonl"
        path.unlink(missing_ok=True)
        path.mkdir()


class TestFiles(FilesConformance):
    """The exporter of JSON lines keeps every promise."""


class Broken(JsonlExporter):
    """An exporter of files with one fault."""

    @classmethod
    def at(cls, folder: Path):
        return cls(folder / "traces.jsonl", folder / "rewards.jsonl")


class WithoutAmend:
    def export(self, trace):
        pass

    def flush(self, timeout_s):
        pass

    def shutdown(self):
        pass

    @classmethod
    def at(cls, folder):
        return cls()


class LosesEverySecond(Broken):
    count = 0

    def export(self, trace):
        self.count += 1
        if self.count % 2:
            super().export(trace)


class WritesAtShutdown(Broken):
    """Keeps everything until the end, whatever flush says."""

    def export(self, trace):
        self.__dict__.setdefault("kept", []).append(trace)

    def shutdown(self):
        for trace in self.__dict__.pop("kept", ()):
            super().export(trace)


class Overwrites(Broken):
    def export(self, trace):
        if "begun" not in self.__dict__:
            self.begun = True
            self.traces.path.unlink(missing_ok=True)
        super().export(trace)


class WritesAtFlush(WritesAtShutdown):
    def flush(self, timeout_s=0.0):
        super().shutdown()

    def shutdown(self):
        pass


class ForgetsRewards(Broken):
    def amend(self, run_id, reward):
        pass


class ChangesTraces(Broken):
    def export(self, trace):
        super().export(trace)
        trace.events[0].keys["exported"] = True


class KnowsItsThread(Broken):
    def export(self, trace):
        home = self.__dict__.setdefault("home", threading.get_ident())
        assert home == threading.get_ident()
        super().export(trace)

    @classmethod
    def at(cls, folder):
        exporter = super().at(folder)
        exporter.home = threading.get_ident()
        return exporter


class HidesLosses(Broken):
    def export(self, trace):
        with contextlib.suppress(OSError):
            super().export(trace)


BROKEN = [
    ("test_it_is_an_exporter_of_traces", WithoutAmend, "must have export, amend, flush"),
    ("test_every_trace_arrives_once_and_whole", LosesEverySecond, "2 of 4 documents, 2 missing"),
    ("test_every_trace_arrives_once_and_whole", WritesAtShutdown, "0 of 4 documents, 4 missing"),
    ("test_every_trace_arrives_once_and_whole", Overwrites, "must be added, came 5 of 9"),
    ("test_shutdown_puts_everything_down", WritesAtFlush, "0 of 4 documents"),
    ("test_a_late_reward_arrives", ForgetsRewards, "must be there with their runs"),
    ("test_a_trace_is_left_alone", ChangesTraces, "must stay as it was"),
    ("test_it_works_on_a_thread_of_its_own", KnowsItsThread, "must be able to use it"),
    ("test_an_unwritable_target_never_reaches_the_host", HidesLosses, "must be counted"),
]


@pytest.mark.parametrize(
    ("check", "broken", "told"), BROKEN, ids=[f"{check}-{b.__name__}" for check, b, _ in BROKEN]
)
def test_each_check_bites(check, broken, told) -> None:
    """An exporter that breaks one promise fails the check of that promise, which says why."""

    class Kit(FilesConformance):
        def open(self, folder):
            return broken.at(folder)

    with pytest.raises(ConformanceError) as failure:
        getattr(Kit(), check)()
    assert told in str(failure.value)
    assert "\nlook at: " in str(failure.value)


def test_every_check_has_a_broken_exporter() -> None:
    """No check of the kit goes without a proof that it bites."""
    assert {check for check, _, _ in BROKEN} == set(ExporterConformance._checks)


def test_what_is_not_declared_is_skipped_in_plain_sight() -> None:
    """A destination that keeps no late rewards says so."""

    class Plain(FilesConformance):
        can_amend = False

    with pytest.raises(pytest.skip.Exception, match="does not declare can_amend"):
        Plain().test_a_late_reward_arrives()
