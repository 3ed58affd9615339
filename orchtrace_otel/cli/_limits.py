"""What `orchtrace doctor` finds of what the SDK would cut or drop: limits of spans, samplers."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from orchtrace_otel.cli._finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SMALLEST: Final = {
    "OTEL_SPAN_LINK_COUNT_LIMIT": (128, "a join of more branches loses links in backends"),
    "OTEL_ATTRIBUTE_COUNT_LIMIT": (64, "spans lose their edges and rewards"),
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": (64, "spans lose their edges and rewards"),
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": (4096, "edges and rewards are cut in the middle"),
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": (4096, "edges and rewards are cut in the middle"),
}
"""Limits of the SDK: the least that loses nothing of ours, and what less would cost."""


def limits(otel: Mapping[str, str]) -> Iterator[Finding]:
    """Look for limits that cut what is ours."""
    found_any = False
    for name, (least, cost) in _SMALLEST.items():
        text = otel.get(name, "").strip().lower()
        if not text or text == "none":
            continue
        found_any = True
        if not text.isdecimal():
            found = f"{text!r} is no number: OpenTelemetry refuses to start"
            yield Finding("limits", "wrong", name, found, "unset it")
        elif int(text) < least:
            advice = f"set it to {least} or more, or unset it"
            yield Finding("limits", "wrong", name, f"{text}: {cost}", advice)
        else:
            yield Finding("limits", "ok", name, f"{text} is enough")
    if not found_any:
        yield Finding("limits", "ok", "OTEL_*_LIMIT", "the defaults, which are enough")


_SAMPLERS: Final = {
    "always_on": False,
    "parentbased_always_on": False,
    "always_off": True,
    "parentbased_always_off": True,
}
"""Samplers that need no argument, and whether each drops everything that begins here."""


def sampling(otel: Mapping[str, str]) -> Iterator[Finding]:
    """Look at which runs the sampler keeps."""
    name = "OTEL_TRACES_SAMPLER"
    sampler = otel.get(name, "").strip().lower()
    if not sampler:
        yield Finding("sampling", "ok", name, "not set: every run is kept")
    elif sampler in {"traceidratio", "parentbased_traceidratio"}:
        yield _ratio(sampler, otel.get("OTEL_TRACES_SAMPLER_ARG", ""))
    elif sampler not in _SAMPLERS:
        known = {entry.name for entry in entry_points(group="opentelemetry_traces_sampler")}
        if sampler in known:
            found, advice = f"{sampler!r} is of a plugin", "make sure that it keeps the runs"
            yield Finding("sampling", "note", name, found, advice)
        else:
            found, advice = f"{sampler!r} is no known sampler", "unset it, or set it to always_on"
            yield Finding("sampling", "wrong", name, found, advice)
    elif _SAMPLERS[sampler]:
        found = f"{sampler}: no span reaches a collector"
        yield Finding("sampling", "wrong", name, found, "unset it, or set it to always_on")
    else:
        yield Finding("sampling", "ok", name, f"{sampler}: every run is kept")


def _ratio(sampler: str, argument: str) -> Finding:
    name = "OTEL_TRACES_SAMPLER_ARG"
    try:
        ratio = float(argument or "1")
        valid = 0 <= ratio <= 1
    except ValueError:
        ratio, valid = 1.0, False
    if not valid:
        found = f"{argument!r} is no ratio: OpenTelemetry ignores or refuses it"
        return Finding("sampling", "wrong", name, found, "set it to a number from 0 to 1")
    if ratio >= 1:
        return Finding("sampling", "ok", name, f"{sampler} {ratio:g}: every run is kept")
    found = (
        f"{sampler} {ratio:g}: a collector gets {ratio:.3g} of the runs; where configure() "
        "makes the provider all are still scored and written, elsewhere the rest is lost"
    )
    advice = "for training data from every run, set it to 1"
    return Finding("sampling", "note" if ratio else "wrong", name, found, advice)
