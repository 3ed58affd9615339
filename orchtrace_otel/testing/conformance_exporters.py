"""What every exporter of finished traces must do: subclass `ExporterConformance`."""

from __future__ import annotations

import json
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel.decorators import agent
from orchtrace_otel.exporter import TraceExporter, dropped_by
from orchtrace_otel.model import Json, Reward, Trace
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.settings import Settings
from orchtrace_otel.testing._kit import ConformanceError, Kit, check
from orchtrace_otel.testing._samples import foreign_traces, own_traces
from orchtrace_otel.testing.recorder import capture

__all__ = ["ConformanceError", "ExporterConformance"]


class ExporterConformance(Kit, ABC, kit=True):
    """The checks that an exporter inherits; each gets an empty folder of its own.

    Attributes:
        can_break: Whether `break_target` can make the destination unwritable.
        can_amend: Whether late rewards are kept.
    """

    can_break: ClassVar[bool] = False
    can_amend: ClassVar[bool] = True

    @abstractmethod
    def open(self, folder: Path) -> TraceExporter:
        """Return a new exporter whose destination lies in `folder`, or is named by it."""

    @abstractmethod
    def read(self, folder: Path) -> list[Json]:
        """Return the documents of traces at the destination; fail on one that is cut."""

    def read_rewards(self, folder: Path) -> list[Json]:
        """Return the late rewards there, each with its `run_id`."""
        raise NotImplementedError

    def break_target(self, folder: Path) -> None:
        """Make the destination of an open exporter unwritable."""
        raise NotImplementedError

    @check
    def test_it_is_an_exporter_of_traces(self) -> None:
        """It has the four methods that the pipeline calls.

        Troubleshooting: see orchtrace_otel.exporter.TraceExporter.
        """
        with _folder() as folder:
            exporter: Any = self.open(folder)
            is_one = isinstance(exporter, TraceExporter)
            self.must(is_one, "it must have export, amend, flush and shutdown", repr(exporter))
            exporter.shutdown()

    @check
    def test_every_trace_arrives_once_and_whole(self) -> None:
        """What was exported is there after the flush, equal and once, in any order.

        Troubleshooting: write everything before flush returns; append, and never overwrite
        what another exporter wrote there.
        """
        own, foreign = own_traces(), foreign_traces()
        with _folder() as folder:
            came = self._export(folder, own)
            self._equal(came, own, "what was exported must be there after the flush")
            came = self._export(folder, foreign)
            self._equal(came, [*own, *foreign], "what another exporter writes must be added")

    def _export(self, folder: Path, traces: list[Trace]) -> list[Json]:
        exporter = self.open(folder)
        for trace in traces:
            exporter.export(trace)
        exporter.flush(10)
        came = self.read(folder)
        exporter.shutdown()
        return came

    @check
    def test_shutdown_puts_everything_down(self) -> None:
        """Nothing is lost if shutdown follows export without a flush; a second one is fine.

        Troubleshooting: shutdown flushes first; let it do nothing once it was done.
        """
        wanted = own_traces()
        with _folder() as folder:
            exporter = self.open(folder)
            for trace in wanted:
                exporter.export(trace)
            exporter.shutdown()
            exporter.shutdown()
            self._equal(self.read(folder), wanted, "shutdown must put everything down")

    @check
    def test_a_late_reward_arrives(self) -> None:
        """A reward that comes after its run is there, with the run's id, beside the traces.

        Troubleshooting: amend must keep the trace as it is and add to it by ids.
        """
        self.skip_unless("can_amend", "late rewards are not kept there")
        reward = Reward(id="late", component="correctness", value=0.5)
        wanted = own_traces(1)
        with _folder() as folder:
            exporter = self.open(folder)
            exporter.export(wanted[0])
            exporter.amend(wanted[0].trace_id, reward)
            exporter.amend("a run of another process", reward)
            exporter.flush(10)
            came = self.read_rewards(folder)
            exporter.shutdown()
            runs = [wanted[0].trace_id, "a run of another process"]
            must = "late rewards must be there with their runs"
            self.must(came == [{"run_id": run, **reward.to_dict()} for run in runs], must, came)
            self._equal(self.read(folder), wanted, "a late reward must leave the traces alone")

    @check
    def test_a_trace_is_left_alone(self) -> None:
        """Exporting changes nothing of a trace: other exporters get the same object.

        Troubleshooting: `Trace.to_dict` gives a document of one's own to work on.
        """
        with _folder() as folder:
            exporter = self.open(folder)
            for trace in own_traces():
                before = trace.to_json()
                exporter.export(trace)
                now = trace.to_json()
                self.must(now == before, "a trace must stay as it was", now[:300])
            exporter.shutdown()

    @check
    def test_it_works_on_a_thread_of_its_own(self) -> None:
        """It is opened on one thread and used on another.

        Troubleshooting: open connections that know their thread where they are used first.
        """
        wanted = own_traces()
        errors: list[BaseException] = []
        with _folder() as folder:
            exporter = self.open(folder)

            def work() -> None:
                try:
                    for trace in wanted:
                        exporter.export(trace)
                    exporter.flush(10)
                    exporter.shutdown()
                except Exception as error:  # noqa: BLE001 - told below, on the test's thread
                    errors.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            self.must(not errors, "another thread must be able to use it", errors)
            self._equal(self.read(folder), wanted, "what another thread exports must be there")

    @check
    def test_an_unwritable_target_never_reaches_the_host(self) -> None:
        """While nothing can be written the host goes on, and what is lost is counted.

        Troubleshooting: raise from export what could not be written; the pipeline counts it.
        An exporter that swallows its own failure loses traces in silence.
        """
        self.skip_unless("can_break", "nothing says how its destination breaks")
        with _folder() as folder:
            exporter = self.open(folder)
            self.break_target(folder)
            pipeline = Pipeline(Settings(), [exporter])
            with capture() as captured:
                own = spans.Tracing(captured.provider.get_tracer(a.SCOPE), pipeline)
                before = spans.use(own)
                captured.provider.add_span_processor(pipeline)
                try:
                    came = agent(len, name="critic")("fine")
                finally:
                    spans.use(before)
            self.must(came == len("fine"), "the host must get its result", came)
            pipeline.force_flush()
            pipeline.shutdown()  # what is kept and tried again is lost by now
            lost = {**pipeline.losses, **dropped_by(exporter)}
            self.must(lost, "a trace that could not be written must be counted", "no loss")

    def _equal(self, came: list[Json], traces: list[Trace], must: str) -> None:
        wanted = sorted(_text(trace.to_dict()) for trace in traces)
        found = sorted(map(_text, came))
        if found != wanted:
            missing = sum(text not in found for text in wanted)
            told = f"{len(found)} of {len(wanted)} documents, {missing} missing or changed"
            self.fail(must, told)


def _text(document: Json) -> str:
    return json.dumps(document, sort_keys=True)


@contextmanager
def _folder() -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "destination"
        folder.mkdir()
        yield folder
