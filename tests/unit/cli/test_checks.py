"""The doctor's checks: each setting that costs data is found, with what to do."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from orchtrace_otel import adapter as adapters
from orchtrace_otel import exporter as exporters
from orchtrace_otel.cli import _endpoints
from orchtrace_otel.cli._checks import what_is_configured, what_is_installed
from orchtrace_otel.cli._endpoints import cannot_connect
from orchtrace_otel.cli._finding import Finding
from orchtrace_otel.settings import Settings
from orchtrace_otel.tables.arrow import pyarrow


def found(name: str, **environ: str) -> Finding:
    """Return what is found under `name` in an environment of these variables alone."""
    [finding] = [one for one in what_is_configured(Settings.from_env(environ)) if one.name == name]
    return finding


@pytest.fixture
def listening() -> Iterator[int]:
    """Listen on a free port and return it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_an_empty_environment_has_nothing_wrong() -> None:
    """Where nothing is set there are notes, and nothing to mend."""
    findings = list(what_is_configured(Settings.from_env({})))
    assert {finding.level for finding in findings} == {"ok", "note"}
    assert all(finding.advice for finding in findings if finding.level == "note")


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "127", "wrong"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "128", "ok"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "16", "wrong"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "500", "ok"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100", "wrong"),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "many", "wrong"),
        ("OTEL_TRACES_SAMPLER", "always_off", "wrong"),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_on", "ok"),
        ("OTEL_TRACES_SAMPLER", "sometimes", "wrong"),
        ("OTEL_SDK_DISABLED", "TRUE", "wrong"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "wrong"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere.pem", "wrong"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "yes please", "wrong"),
    ],
)
def test_a_setting_that_costs_data_is_wrong(name: str, value: str, level: str) -> None:
    """Limits that cut edges, samplers that drop runs, and words nobody knows are told."""
    finding = found(name, **{name: value})
    assert (finding.level, bool(finding.advice)) == (level, level == "wrong")


@pytest.mark.parametrize(
    ("ratio", "level"),
    [("0.1", "note"), ("0", "wrong"), ("1", "ok"), ("2", "wrong"), ("x", "wrong")],
)
def test_a_ratio_says_how_much_is_kept(ratio: str, level: str) -> None:
    """Sampling may be meant, so it is a note; what keeps nothing or is no ratio is wrong."""
    environ = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ratio}
    assert found("OTEL_TRACES_SAMPLER_ARG", **environ).level == level


def test_no_limit_is_no_fault() -> None:
    """The word that switches a limit off is understood."""
    names = [
        f.name for f in what_is_configured(Settings.from_env({"OTEL_ATTRIBUTE_COUNT_LIMIT": ""}))
    ]
    assert "OTEL_*_LIMIT" in names


def test_an_endpoint_that_answers_is_fine(listening: int) -> None:
    """The endpoint of the environment is asked for a connection."""
    url = f"http://me:secret@127.0.0.1:{listening}/v1/traces"
    finding = found("OTEL_EXPORTER_OTLP_ENDPOINT", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert (finding.level, finding.found) == (
        "ok",
        f"http://127.0.0.1:{listening}/v1/traces takes connections",
    )


def test_an_endpoint_that_is_down_is_wrong() -> None:
    """So is one that an exporter of ours is configured with, though the exporter opens."""
    spec = "otlp:http://127.0.0.1:9"
    findings = what_is_configured(Settings.from_env({"ORCHTRACE_EXPORTERS": spec}))
    assert [(f.topic, f.level, f.found) for f in findings if f.name == spec] == [
        ("exporters", "ok", "opens"),
        ("endpoints", "wrong", "http://127.0.0.1:9: Connection refused"),
    ]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9", "Connection refused"),
        ("127.0.0.1:9", "Connection refused"),
        ("http://", "no host in it"),
        ("http://h:99999", "Port out of range 0-65535"),
        ("http://" + "x" * 70 + ".example", None),
    ],
)
def test_what_cannot_be_reached_says_why(url: str, why: str | None) -> None:
    """A wrong address is told in words, whatever is wrong with it."""
    said = cannot_connect(url)
    assert said
    assert why is None or said == why


@pytest.mark.parametrize("url", ["me:secret@127.0.0.1:{}", "ftp://127.0.0.1:{}"])
def test_an_endpoint_without_a_scheme_is_wrong_for_http(url: str, listening: int) -> None:
    """Something listens there, and no span will ever arrive: `configure` says so as well."""
    url = url.format(listening)
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    finding = found(name, **{name: url})
    assert finding.level == "wrong"
    assert finding.found == (
        f"{url.replace('me:secret@', '')} begins with neither http:// nor https://: over HTTP no "
        "span arrives"
    )
    assert finding.advice == f"give {name} a scheme, or set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"


def test_the_endpoint_of_traces_alone_counts(listening: int) -> None:
    """What the other one lacks costs nothing then; and gRPC needs no scheme."""
    other = {"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:9"}
    name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    url = f"http://127.0.0.1:{listening}"
    assert found(name, **other, **{name: url}).level == "ok"
    grpc = {name: f"127.0.0.1:{listening}", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert found(name, **grpc).found == f"127.0.0.1:{listening} takes connections"


@pytest.mark.parametrize(
    ("value", "level", "said"),
    [
        ("console", "ok", "console is installed, not tried"),
        ("zipkin", "wrong", "'zipkin' is not installed, and left out; there are: console, "),
        ("none", "note", "none: spans go to no collector"),
        ("none,otlp", "wrong", "http://localhost:4318: "),
    ],
)
def test_the_exporters_of_spans_are_looked_at(
    value: str, level: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each name does, also where an endpoint says otherwise; and only that is told."""
    monkeypatch.setattr(_endpoints, "cannot_connect", lambda url: "Connection refused")
    finding = found("OTEL_TRACES_EXPORTER", OTEL_TRACES_EXPORTER=value)
    assert (finding.level, bool(finding.advice)) == (level, level != "ok")
    assert finding.found.startswith(said)
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    environ = Settings.from_env({"OTEL_TRACES_EXPORTER": value, **endpoint})
    told = {one.name for one in what_is_configured(environ) if one.topic == "endpoints"}
    to_a_collector = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_LOGS_EXPORTER"}
    assert told == (to_a_collector if "otlp" in value else {finding.name})


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_an_exporter_that_does_not_load_is_told(
    signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed is not enough."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    entry = EntryPoint("mine", "not_here:Exporter", f"opentelemetry_{signal}_exporter")
    monkeypatch.setattr(_endpoints, "installed", lambda signal: {"mine": entry})
    finding = found(variable, **{variable: "mine"})
    assert finding.level == "wrong"
    assert finding.found.startswith("not_here:Exporter does not load: ModuleNotFoundError")


@pytest.mark.parametrize(
    ("value", "level", "said"),
    [
        ("", "note", "not set: rewards that are recorded after their run reach no collector"),
        ("otlp", "ok", "otlp_proto_http is installed, not tried"),
        ("console", "ok", "console is installed, not tried"),
        ("zipkin", "wrong", "'zipkin' is not installed, and left out; there are: console, "),
    ],
)
def test_the_way_of_late_rewards_to_a_collector_is_looked_at(
    value: str, level: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans may arrive without it, and verdicts not."""
    monkeypatch.setattr(_endpoints, "cannot_connect", lambda url: None)
    finding = found(
        "OTEL_LOGS_EXPORTER",
        OTEL_LOGS_EXPORTER=value,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
    )
    assert (finding.level, bool(finding.advice)) == (level, level != "ok")
    assert finding.found.startswith(said)


@pytest.mark.parametrize(
    "spec",
    ["http:http://me:s3cret@127.0.0.1:1/x?k=s3cret", "http:http://127.0.0.1:1?k=s3cret",
     "http:https://me:s3cret@host:99999/", "parquet:odd://me:s3cret@host/x", "odd:http://s3cret@host"],
)  # fmt: skip
def test_a_report_on_exporters_shows_no_secret(spec: str, monkeypatch) -> None:
    """Whether they open or not, and whoever listens there."""
    monkeypatch.setattr(_endpoints, "cannot_connect", lambda url: None)
    findings = list(what_is_configured(Settings.from_env({"ORCHTRACE_EXPORTERS": spec})))
    assert "s3cret" not in "".join(map(repr, findings))
    assert any(one.name.startswith(spec.partition("//")[0]) for one in findings)


def test_an_exporter_that_cannot_open_is_wrong(tmp_path: Path) -> None:
    """Each exporter of the environment is opened as an application would open it."""
    (tmp_path / "file").write_text("")
    spec = f"jsonl:{tmp_path}/file/traces/"
    finding = found(spec, ORCHTRACE_EXPORTERS=spec)
    assert (finding.level, finding.advice) == ("wrong", "correct ORCHTRACE_EXPORTERS")
    assert "must be able to write" in finding.found


OTLP = "opentelemetry.exporter.otlp.proto"
NOT_HERE = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("absent", "variable", "value", "name", "extra"),
    [
        ("httpx", "ORCHTRACE_EXPORTERS", f"http:http://{NOT_HERE}/", None, "http"),
        ("pyarrow", "ORCHTRACE_EXPORTERS", "parquet:{}/", None, "files"),
        ("fsspec.core", "ORCHTRACE_EXPORTERS", "parquet:memory://tables", None, "files"),
        ("fsspec.core", "ORCHTRACE_STORE", "memory://content", "ORCHTRACE_STORE", "files"),
        (f"{OTLP}.http", "ORCHTRACE_EXPORTERS", f"otlp:http://{NOT_HERE}", None, "otlp"),
        (f"{OTLP}.grpc", "ORCHTRACE_EXPORTERS", f"otlp-grpc:http://{NOT_HERE}", None, "otlp"),
        (
            f"{OTLP}.http",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            f"http://{NOT_HERE}",
            "OTLP over http/protobuf",
            "otlp",
        ),
        (f"{OTLP}.grpc", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTLP over grpc", "otlp"),
    ],
)
def test_a_library_that_is_missing_is_told_with_the_line_that_installs_it(  # noqa: PLR0913
    absent: str,
    variable: str,
    value: str,
    name: str | None,
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever asks for it: an exporter of ours, OpenTelemetry's variables, the store."""
    for loaded in [one for one in sys.modules if f"{one}.".startswith(f"{absent}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, absent, None)
    pyarrow.cache_clear()
    value = value.format(tmp_path)
    environ = {"OTEL_TRACES_EXPORTER": "otlp"} if variable.endswith("PROTOCOL") else {}
    findings = list(what_is_configured(Settings.from_env({**environ, variable: value})))
    [finding] = [one for one in findings if "pip install" in one.advice]
    assert (finding.level, finding.name) == ("wrong", name or value)
    assert finding.advice == f"run: pip install 'orchtrace-otel[{extra}]'"
    assert "run:" not in finding.found


def test_an_exporter_that_refuses_its_settings_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of who refused them, whoever names it; the report goes on."""

    def refuse(_: str) -> None:
        msg = "no such compression"
        raise ValueError(msg)

    monkeypatch.setattr(exporters, "open_exporter", refuse)
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{NOT_HERE}",
        "ORCHTRACE_EXPORTERS": "jsonl:traces/",
    }
    for name in ("OTLP over http/protobuf", "jsonl:traces/"):
        finding = found(name, **environ)
        assert (finding.level, finding.found) == ("wrong", "ValueError: no such compression")


def test_a_store_behind_a_url_has_its_library() -> None:
    """It is not asked for anything: that would take keys, and a network."""
    finding = found("ORCHTRACE_STORE", ORCHTRACE_STORE="memory://me:secret@content/folder")
    assert finding.level == "ok"
    assert "secret" not in finding.found


def test_what_an_exporter_lost_is_told(tmp_path: Path) -> None:
    """Losses that an earlier process wrote down are part of the report."""
    (tmp_path / "losses.jsonl").write_text('{"lost":3,"why":"No space left on device"}\nnonsense\n')
    spec = f"jsonl:{tmp_path}"
    findings = what_is_configured(Settings.from_env({"ORCHTRACE_EXPORTERS": spec}))
    assert [(f.level, f.found) for f in findings if f.name == spec] == [
        ("ok", "opens"),
        (
            "wrong",
            f"3 lines were lost (No space left on device); {tmp_path}/losses.jsonl says when",
        ),
    ]


def test_a_store_that_cannot_be_written_is_wrong(tmp_path: Path) -> None:
    """A folder that can be created is fine, one below a file is not."""
    (tmp_path / "file").write_text("")
    assert found("ORCHTRACE_STORE", ORCHTRACE_STORE=f"{tmp_path}/a/b").level == "ok"
    assert found("ORCHTRACE_STORE", ORCHTRACE_STORE=f"{tmp_path}/file/b").level == "wrong"


def test_what_was_lost_of_content_is_told(tmp_path: Path) -> None:
    """Beside whether the store can be written: that it can be now tells nothing of before."""
    noted = tmp_path / "losses.jsonl"
    noted.write_text('{"lost":4,"why":"content_unwritten"}\n')
    findings = what_is_configured(Settings.from_env({"ORCHTRACE_STORE": str(tmp_path)}))
    assert [(f.level, f.found) for f in findings if f.name == "ORCHTRACE_STORE"] == [
        ("ok", f"{tmp_path} can be written"),
        ("wrong", f"4 documents were lost (content_unwritten); {noted} says when"),
    ]


def test_versions_are_told() -> None:
    """The report names Python, ourselves and OpenTelemetry."""
    levels = {finding.name: finding.level for finding in what_is_installed()}
    assert {levels["Python"], levels["orchtrace-otel"], levels["opentelemetry-sdk"]} == {"ok"}


class Absent:
    """An adapter whose framework is not installed."""

    extra = "absent"
    requires: ClassVar = {"no-such-framework": ">=1"}


class Outdated(Absent):
    """An adapter whose framework is too old."""

    requires: ClassVar = {"pytest": ">=999"}

    @classmethod
    def unmet(cls) -> str:
        return "pytest>=999 (found 9)"


@pytest.mark.parametrize(
    ("kind", "level", "told"),
    [
        (Absent, "note", "no-such-framework is not installed"),
        (Outdated, "wrong", "needs pytest>=999 (found 9)"),
        (None, "wrong", "nowhere:Adapter does not load: ModuleNotFoundError"),
    ],
)
def test_adapters_are_told(
    kind: type | None, level: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absent is worth a note, out of range or broken is wrong; each has the line to run."""
    entry = EntryPoint("some", "nowhere:Adapter", adapters.GROUP)
    if kind is not None:
        monkeypatch.setattr(EntryPoint, "load", lambda self: kind)
    monkeypatch.setattr(adapters, "registered", lambda: {"some": entry})
    [finding] = [one for one in what_is_installed() if one.topic == "adapters"]
    assert (finding.level, finding.found.startswith(told)) == (level, True)
    assert ("pip install 'orchtrace-otel[absent]'" in finding.advice) == (kind is not None)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("ORCHTRACE_AUTOGEN_STATE", "untouched", None),
        ("ORCHTRACE_AUTOGEN_STATE", "linked", ("ok", "linked, where untouched is usual", "")),
        (
            "ORCHTRACE_LANGGRAPH_CHECKPOINTS",
            "marked",
            (
                "wrong",
                "ORCHTRACE_LANGGRAPH_CHECKPOINTS must be one of untouched, linked, got 'marked'",
                "unset it for 'untouched'",
            ),
        ),
        (
            "ORCHTRACE_LANGGRAPH_CHECKPOINT",
            "linked",
            ("wrong", "read by nobody", "write ORCHTRACE_LANGGRAPH_CHECKPOINTS"),
        ),
    ],
)
def test_options_of_adapters_are_told(
    variable: str, value: str, told: tuple[str, str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is chosen, what is no choice, and what nobody reads."""
    monkeypatch.setenv(variable, value)
    findings = [one for one in what_is_configured(Settings()) if one.topic == "settings"]
    assert [(one.level, one.found, one.advice) for one in findings] == ([told] if told else [])
    assert {one.name for one in findings} <= {variable}


@pytest.mark.parametrize(
    ("mode", "store", "level", "told"),
    [
        ("NO_CONTENT", None, None, None),
        ("SPAN_ONLY", None, "note", "SPAN_ONLY: content is captured, on spans"),
        ("EVENT_ONLY", ".", "note", "EVENT_ONLY: content is captured, in the store"),
        ("SPAN_AND_EVENT", ".", "note", "SPAN_AND_EVENT: content is captured, on spans and in"),
        ("EVENT_ONLY", None, "wrong", "EVENT_ONLY keeps content in a store, and ORCHTRACE_STORE"),
    ],
)
def test_content_that_is_captured_is_told(
    mode: str, store: str | None, level: str | None, told: str | None
) -> None:
    """Where it goes, or why it cannot."""
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    environ = {name: mode} | ({} if store is None else {"ORCHTRACE_STORE": store})
    finding = found(name if level else "capture", **environ)
    assert finding.level == (level or "ok")
    assert finding.found.startswith(told or "NO_CONTENT: no content leaves")
