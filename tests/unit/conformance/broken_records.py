"""Adapters that record what they should not, or too late, with the check that each must fail."""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry.trace import SpanContext

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.testing.conformance import CANARY
from tests.unit.conformance.crew_adapter import CrewAdapter
from tests.unit.conformance.crew_kit import Broken


class WritesNumbers(CrewAdapter):
    """Writes a number where a text belongs."""

    def facts(self) -> dict[str, Any]:
        return {a.ROLE: 1}


class InventsKeys(CrewAdapter):
    """Writes a key that attributes.py does not know."""

    def facts(self) -> dict[str, Any]:
        return {"orchtrace.mood": "good"}


class NamesTheRun(CrewAdapter):
    """Writes the run's id on agents too."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        _, activation = opened
        activation.span.set_attribute(a.RUN_ID, activation.run.id)
        super().close_agent(opened, error)


class ForgetsTheRun(CrewAdapter):
    """Gives agents' spans a context without their tracestate."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        _, activation = opened
        own = activation.span.get_span_context()
        activation.become(SpanContext(own.trace_id, own.span_id, False, own.trace_flags))
        super().close_agent(opened, error)


class LooksAhead(CrewAdapter):
    """Gives an agent's opening a cause that comes later."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        _, activation = opened
        later = spans.instant(activation.run.root, "decide")
        activation.span.set_attribute(a.EDGES, [f"causal:{later.event_id}"])
        super().close_agent(opened, error)


class EndsLate(CrewAdapter):
    """Records something once the run is over."""

    @guarded
    def close_crew(self, playing: Any, error: BaseException | None) -> None:
        super().close_crew(playing, error)
        if playing.run is not None:
            late = spans.open_activation(playing.activation, "late")
            late.close()


class GuessesWhy(CrewAdapter):
    """Stops without knowing why."""

    @guarded
    def close_crew(self, playing: Any, error: BaseException | None) -> None:
        playing.run.close(stop_reason="unknown")


class TellsContent(CrewAdapter):
    """Writes what an agent said into an attribute."""

    @guarded
    def close_crew(self, playing: Any, error: BaseException | None) -> None:
        playing.activation.span.set_attribute("said", CANARY)
        super().close_crew(playing, error)


class LogsContent(CrewAdapter):
    """Writes what goes through it into a log."""

    def hand_on(self, said: str) -> str:
        logging.getLogger("orchtrace_otel").debug("handing on %s", said)
        return said


class RecordsExceptions(CrewAdapter):
    """Records an exception with its text, as OpenTelemetry's own method does."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        if error is not None:
            opened[1].span.record_exception(error)
        super().close_agent(opened, error)


BROKEN: list[Broken] = [
    ("test_attributes_have_known_keys_and_exact_types", WritesNumbers, "of type int: 1"),
    ("test_attributes_have_known_keys_and_exact_types", InventsKeys, "orchtrace.mood is no key"),
    ("test_each_span_tells_its_run", NamesTheRun, "on its root alone, not on"),
    ("test_each_span_tells_its_run", ForgetsTheRun, "must name the run in the tracestate of"),
    ("test_traces_are_valid", LooksAhead, "must give a valid trace"),
    ("test_spans_in_any_order_give_the_same_trace", EndsLate, "in any order of arrival"),
    ("test_a_run_ends_with_its_stop", GuessesWhy, "came 'unknown'"),
    ("test_content_stays_inside", TellsContent, "through the attribute said"),
    ("test_content_stays_inside", LogsContent, "through the log"),
    ("test_content_stays_inside", RecordsExceptions, "through an event of"),
    ("test_captured_content_is_redacted", TellsContent, "through the attribute said"),
]
