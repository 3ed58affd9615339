"""`configure`, `instrument`, `flush` and `shutdown`: where a process says what it wants."""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from orchtrace_otel import adapter as adapters
from orchtrace_otel import attributes as a
from orchtrace_otel import content as gate
from orchtrace_otel import spans
from orchtrace_otel._arguments import check_judge
from orchtrace_otel._guard import asked, warn_once
from orchtrace_otel.content.capture import Capture
from orchtrace_otel.content.key import key_of
from orchtrace_otel.content.setup import recorder_for, switch_to, wanted
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.evaluation import Evaluations
from orchtrace_otel.exporter import TraceExporter, dropped_by, open_exporter
from orchtrace_otel.forking import at_end_of_children
from orchtrace_otel.metrics import Metrics, global_metrics
from orchtrace_otel.model import Trace
from orchtrace_otel.own_thread import Waiting
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.provider import log_events, made_here, refused
from orchtrace_otel.rewards import RewardFunction, RewardResult
from orchtrace_otel.sampling import RecordOurs
from orchtrace_otel.settings import Settings
from orchtrace_otel.spans import Tracing

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider

Exporter: TypeAlias = str | TraceExporter | SpanExporter
RewardCallable: TypeAlias = Callable[[Trace], RewardResult | None]
RewardSource: TypeAlias = str | RewardCallable

REWARDS: Final = "orchtrace.reward"


@dataclass(slots=True)
class _Configured:
    """What `configure` set up last."""

    provider: TracerProvider
    pipeline: Pipeline
    exporters: Sequence[TraceExporter]
    rewards: list[RewardFunction]
    evaluations: Evaluations
    metrics: Metrics | None


_SPANS: Final = "spans_undelivered"
_EVALUATIONS: Final = "evaluations_undelivered"
_CONTENT_SECONDS: Final = 10.0
"""How long a shutdown waits for the store of content."""
_SPANS_SECONDS: Final = 30.0
"""How long it waits for the exporters of spans, as the SDK does."""
_CHILD_SECONDS: Final = 10
"""How long all of it may take at the end of a child, which its parent waits for."""

_lock = threading.RLock()
_now: _Configured | None = None
_last: _Configured | None = None
"""What was shut down last: its losses can still be asked for."""
_lost: Counter[str] = Counter()
"""What was lost of content until the last shutdown."""


def _start_afresh() -> None:
    """Leave to the parent of a fork what it lost, and a lock that one of its threads may hold."""
    global _lock  # noqa: PLW0603 - one configuration a process
    _lock = threading.RLock()
    _lost.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


def configure(  # noqa: PLR0913 - one keyword a part that can be replaced
    tracer_provider: trace.TracerProvider | None = None,
    logger_provider: LoggerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    exporters: Sequence[Exporter] | None = None,
    rewards: Sequence[RewardSource] | Mapping[str, RewardCallable] | None = None,
    content: str | Mapping[str, Any] | Capture | None = None,
) -> None:
    """Say where spans and traces go; optional, and a later call changes what it names.

    Honours `OTEL_*` and `ORCHTRACE_*`. Uses the given provider, else the global one;
    where none is set it makes one and sets it.

    Args:
        tracer_provider: An SDK provider whose spans are followed, or one around it that has it
            as `provider`, as Logfire's.
        logger_provider: Where rewards go as log events, those that come after their run too;
            else the global one, or where there is none, one of the exporters that
            `OTEL_LOGS_EXPORTER` names.
        meter_provider: Where rewards, stops and measures go as metrics; the global one
            where one is set by now. Also for the SDK's own metrics, where it has any and the
            provider is made here.
        exporters: Of finished traces or of spans: objects, or `"name:target"` such
            as `jsonl:traces/`; `ORCHTRACE_EXPORTERS` unless given.
        rewards: Further reward functions of a finished trace: callables, names of
            installed ones, or a mapping of names to callables.
        content: What is captured of prompts, completions, arguments and results: a value
            of `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, which counts unless
            given, or a `content.Capture` or a mapping of its fields, such as
            `{"mode": "EVENT_ONLY", "store": "content/", "redact_keys": ["iban"]}`.

    Raises:
        ConfigError: If an argument or a variable does not hold what it must.
        MissingDependencyError: If what an exporter needs is not installed.
    """
    settings = Settings.from_env()
    if tracer_provider is not None:
        _sdk(tracer_provider)
    _check_provider("logger_provider", "get_logger", logger_provider)
    _check_provider("meter_provider", "get_meter", meter_provider)
    capture = wanted(content, settings)
    named = None if exporters is None else _listed("exporters", exporters)
    functions = None if rewards is None else _rewards(rewards)
    if settings.sdk_disabled:
        return  # before anything is made, such as a folder that this machine may not have
    with ExitStack() as undo:
        opened = _opened(named if named is not None else _kept(settings), undo)
        key = settings.key or _key_of(settings.store)
        recorder = None if capture is None else recorder_for(capture, settings.key)
        with _lock:
            evaluations = _evaluations(logger_provider, settings)
            if _now is None or evaluations is not _now.evaluations:
                undo.callback(evaluations.shutdown)
            provider = _provider(tracer_provider, settings, meter_provider)
            metrics = None if meter_provider is None else Metrics(meter_provider)
            _follow_from_now(provider, settings, opened, functions, evaluations, metrics)
            undo.pop_all()  # what was opened is in use from here on
            # Last: a host that goes on after a refusal must not have its content captured.
            gate.use_key(key if recorder is None or recorder.key is None else recorder.key)
            if capture is not None:
                switch_to(recorder)


def _follow_from_now(  # noqa: PLR0913 - what `configure` takes, made
    provider: TracerProvider,
    settings: Settings,
    exporters: Sequence[TraceExporter | SpanExporter],
    rewards: list[RewardFunction] | None,
    evaluations: Evaluations,
    metrics: Metrics | None,
) -> None:
    """Follow `provider`; what is None stays as it was."""
    global _now  # noqa: PLW0603 - one configuration a process
    before = _now
    if rewards is None:
        rewards = [] if before is None else before.rewards
    if metrics is None:
        metrics = (None if before is None else before.metrics) or global_metrics()
    for_traces: list[TraceExporter] = []
    for exporter in exporters:
        if isinstance(exporter, SpanExporter):
            _add_span_exporter(provider, exporter)
        else:
            for_traces.append(exporter)
    pipeline = _follow(provider, settings)
    receivers = for_traces if metrics is None else [*for_traces, metrics]
    pipeline.replace(receivers, rewards, evaluations)
    spans.use(Tracing(provider.get_tracer(a.SCOPE), pipeline, provider=provider))
    _now = _Configured(provider, pipeline, for_traces, rewards, evaluations, metrics)
    if before is not None and before.evaluations is not evaluations:
        before.evaluations.shutdown()
    if before is not None and before.pipeline is not pipeline:
        before.pipeline.shutdown()
        _followed.pop(id(before.provider), None)


def _opened(wanted: Sequence[Exporter], undo: ExitStack) -> list[TraceExporter | SpanExporter]:
    """Open the exporters that are named, and refuse what is none.

    Args:
        wanted: Names with targets, and exporters.
        undo: Lets go of what is opened here, should the rest of the set-up fail.
    """
    # One that is named twice, here and in a list of a deployment's say, gets each trace once.
    once = {one if isinstance(one, str) else id(one): one for one in wanted}.values()
    opened: list[Any] = []
    for given in once:
        one: Any = open_exporter(given) if isinstance(given, str) else given
        # A class has these methods too, and can do nothing with them.
        if isinstance(one, type) or not isinstance(one, (TraceExporter, SpanExporter)):
            msg = (
                "an exporter must be 'name:target', an OpenTelemetry SpanExporter, or have "
                f"export, amend, flush and shutdown, got {one!r}"
            )
            raise ConfigError(msg)
        if isinstance(given, str):
            undo.callback(one.shutdown)
        opened.append(one)
    return opened


def _kept(settings: Settings) -> Sequence[Exporter]:
    """Return the exporters of a call that names none: those there are, else the environment's."""
    return settings.exporters if _now is None else _now.exporters


def _evaluations(given: LoggerProvider | None, settings: Settings) -> Evaluations:
    """Return who hears of rewards: who is given, those there are, the global or a made provider."""
    if given is not None:
        return Evaluations(given)
    if _now is not None:
        return _now.evaluations
    of_all = Evaluations()
    made = None if of_all.is_heard else log_events(settings)
    return of_all if made is None else Evaluations(made.provider, made.exporters)


def _check_provider(what: str, method: str, given: object) -> None:
    # A class has this method too, and can do nothing with it.
    is_one = not isinstance(given, type) and callable(getattr(given, method, None))
    if given is not None and not is_one:
        msg = f"{what} must be one of OpenTelemetry, which has {method}(), got {given!r}"
        raise ConfigError(msg)


def _key_of(store: str | None) -> str | None:
    """Return the key that is kept in a local store; a store elsewhere holds none yet."""
    if store is None or "://" in store:
        return None
    return key_of(Path(store).expanduser())


def instrument(*names: str) -> adapters.Instrumented:
    """Put in the adapter of every installed framework, or only the named ones.

    Configures with the defaults where nothing is configured yet. Doing it twice is
    doing it once; each returned handle must be released for the hooks to come out.

    Returns:
        A handle with `uninstrument()`, which is a context manager too.

    Raises:
        ConfigError: If there is no adapter of that name.
        MissingDependencyError: If a framework that was named is not installed.
    """
    for name in cast("tuple[object, ...]", names):
        if not isinstance(name, str):
            msg = f"instrument() needs names of adapters such as 'langgraph', got {name!r}"
            raise ConfigError(msg)
    with _lock:
        if spans.tracing() is None or (_now is None and not spans.is_configured()):
            configure()
    return adapters.instrument(names)


def flush(timeout_s: float = 30) -> bool:
    """Wait until what is finished is with the exporters.

    Args:
        timeout_s: Seconds to wait at most.

    Returns:
        False where time ran out, or an exporter could not put down what it has.

    Raises:
        ConfigError: If the time is no finite number.
    """
    is_number = isinstance(cast("object", timeout_s), int | float)
    if not (is_number and math.isfinite(timeout_s)):
        msg = f"flush() needs a finite number of seconds, got {timeout_s!r}; say flush(30)"
        raise ConfigError(msg)
    now = _now
    if now is None:
        return True
    timeout_s = min(timeout_s, threading.TIMEOUT_MAX)
    end = time.monotonic() + timeout_s
    in_time = now.pipeline.force_flush(int(timeout_s * 1_000))
    recorder = gate.active()
    if recorder is not None:
        in_time = recorder.flush(max(end - time.monotonic(), 0)) and in_time
    in_time = now.evaluations.flush(max(end - time.monotonic(), 0)) and in_time
    left = max(end - time.monotonic(), 0)
    return _flushed(now.provider, left) and in_time


def _flushed(provider: TracerProvider, timeout_s: float) -> bool:
    """Have a provider deliver its spans; False where it cannot, or the host's processors fail.

    The SDK's processors wait for their exporters, however long these take.
    """
    flush = asked(provider.force_flush, "a span processor of the application", "was not flushed")
    return bool(_flushing.within(timeout_s, lambda: flush(int(timeout_s * 1_000))))


_flushing: Final = Waiting()


def shutdown() -> None:
    """Deliver what is finished, say what was lost, and stop following runs.

    A provider that was made here delivers its spans now and stays the global one, for
    the spans of others; the SDK shuts it down when the process ends.
    """
    global _now, _last
    with _lock:
        now, _now, _last = _now, None, _now or _last
        if now is None:
            return
        spans.use(None)
        now.pipeline.shutdown()
        now.evaluations.shutdown()
        recorder = gate.use(None)
        if recorder is not None:
            recorder.shutdown(_CONTENT_SECONDS)
            _lost.update(recorder.losses)
        _followed.pop(id(now.provider), None)
        if isinstance(now.provider.sampler, RecordOurs):
            spans.ignore(now.provider)
            _flushed(now.provider, _SPANS_SECONDS)
        _own_up(now)


def _own_up(last: _Configured) -> None:
    """Say what was lost beside what the pipeline and the exporters of spans said themselves."""
    others = losses().items() - dict(last.pipeline.losses).items()
    told = ", ".join(f"{what}: {n}" for what, n in sorted(others) if what != _SPANS)
    if told:
        key = f"losses:{id(last)}"
        warn_once(key, "orchtrace lost data in this process, beyond the runs: %s", told)


# A provider of the host's need not shut down at exit; what is finished is delivered all the same.
atexit.register(shutdown)


def _end_child() -> None:
    """Do what is done at the exit of a process, in the time that one has for it.

    What was forked in the middle of a call of gRPC may wait for ever for a thread that only its
    parent has.
    """
    if Waiting().within(_CHILD_SECONDS, _deliver_all) is None:
        warn_once(
            "child",
            "orchtrace was not done within %s s at the end of this process; what it had not "
            "delivered by then is lost",
            _CHILD_SECONDS,
        )


def _deliver_all() -> bool:
    """Shut down, and the SDK's providers too, which hear of no exit."""
    shutdown()
    if _last is not None:
        _last.evaluations.flush(_SPANS_SECONDS)
        _flushed(_last.provider, _SPANS_SECONDS)
        if isinstance(_last.provider.sampler, RecordOurs):
            _last.provider.shutdown()
    return True


at_end_of_children(_end_child)


def losses() -> Mapping[str, int]:
    """Return what this process lost since it was configured, by kind; after a shutdown too."""
    configured = _now or _last
    if configured is None:
        return {}
    lost = dict(configured.pipeline.losses)
    recorder = gate.active()
    for what, count in (_lost if recorder is None else recorder.losses).items():
        lost[what] = lost.get(what, 0) + count
    for receiver in configured.exporters:
        for what, count in dropped_by(receiver).items():
            lost[what] = lost.get(what, 0) + count
    if configured.evaluations.lost:
        lost[_EVALUATIONS] = configured.evaluations.lost
    for exporter in _span_exporters(configured.provider):
        spans_lost: object = getattr(exporter, "lost", 0)
        if isinstance(spans_lost, int) and spans_lost:
            lost[_SPANS] = lost.get(_SPANS, 0) + spans_lost
    return lost


_followed: Final[dict[int, tuple[TracerProvider, Pipeline]]] = {}
"""Providers that have our processor; it cannot be taken off again, only given other work."""


def _follow(provider: TracerProvider, settings: Settings) -> Pipeline:
    known = _followed.get(id(provider))
    if known is not None:
        return known[1]
    pipeline = Pipeline(settings)
    provider.add_span_processor(pipeline)
    _followed[id(provider)] = (provider, pipeline)
    return pipeline


def _provider(
    given: trace.TracerProvider | None,
    settings: Settings,
    meter_provider: MeterProvider | None,
) -> TracerProvider:
    """Return the provider to follow: the given one, the global one, or one made here."""
    if given is not None:
        return _sdk(given)
    existing = trace.get_tracer_provider()
    if not isinstance(existing, trace.ProxyTracerProvider):
        return _sdk(existing)
    made, exporters = made_here(settings, meter_provider)
    for exporter in exporters:
        _add_span_exporter(made, exporter)
    trace.set_tracer_provider(made)
    return made


def _sdk(provider: trace.TracerProvider) -> TracerProvider:
    # Others put one of their own around the SDK's and make it the global one, as Logfire does.
    for one in (provider, getattr(provider, "provider", None)):
        if isinstance(one, TracerProvider):
            return one
    kind: type[object] = type(provider)
    came = (
        repr(provider) if isinstance(provider, type) else f"{kind.__module__}.{kind.__qualname__}"
    )
    msg = (
        "configure() needs a TracerProvider of opentelemetry-sdk, whose spans can be followed, "
        f"got {came}"
    )
    raise ConfigError(msg)


def _add_span_exporter(provider: TracerProvider, exporter: SpanExporter) -> None:
    """Export a provider's spans too, unless this exporter or another one of OTLP does already."""
    for known in _span_exporters(provider):
        if known is exporter:
            return
        if _is_otlp(known) and _is_otlp(exporter):
            exporter.shutdown()
            return
    try:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    except ValueError as error:
        raise refused(error) from error


def _is_otlp(exporter: SpanExporter) -> bool:
    """Whether it is an official OTLP exporter, of HTTP or gRPC, or made of one."""
    return any(kind.__name__ == "OTLPSpanExporter" for kind in type(exporter).__mro__)


def _span_exporters(provider: TracerProvider) -> list[SpanExporter]:
    """Return the exporters of a provider, as far as its processors let them be seen."""
    processors = getattr(getattr(provider, "_active_span_processor", None), "_span_processors", ())
    found: list[SpanExporter] = []
    for processor in processors:
        batch = getattr(processor, "_batch_processor", None)
        exporter = getattr(processor, "span_exporter", None) or getattr(batch, "_exporter", None)
        if isinstance(exporter, SpanExporter):
            found.append(exporter)
    return found


def _rewards(
    given: Sequence[RewardSource] | Mapping[str, RewardCallable] | None,
) -> list[RewardFunction]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        named: list[tuple[str, Any]] = list(given.items())
    else:
        named = [_reward(one) for one in _listed("rewards", given)]
    seen: set[str] = set()
    for name, function in named:
        if not isinstance(cast("object", name), str) or not name:
            msg = f"rewards must have texts as names, got {name!r}; write {{'name': ...}}"
            raise ConfigError(msg)
        check_judge(f"reward {name!r} must be callable with a trace", function)
        if name in seen:  # the later one's number would stand in the place of the other's
            msg = f"rewards must have a name each, got {name!r} twice; write {{'name': ...}}"
            raise ConfigError(msg)
        seen.add(name)
    return named


def _reward(one: RewardSource) -> tuple[str, Any]:
    if not isinstance(one, str):
        return getattr(one, "__name__", type(one).__name__), one
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, rarely needed

    found = {entry.name: entry for entry in entry_points(group=REWARDS)}
    if one not in found:
        known = ", ".join(sorted(found)) or "none"
        msg = f"rewards need names of installed reward functions ({known}), got {one!r}"
        raise ConfigError(msg)
    loaded: Callable[..., Any] = found[one].load()
    return one, loaded


def _listed(what: str, given: Any) -> list[Any]:
    kind: type[object] = given.__class__
    if issubclass(kind, (str, bytes)) or not issubclass(kind, Sequence):
        msg = f"{what} must be a list, got {given!r}; write {what}=[...]"
        raise ConfigError(msg)
    return list(given)
