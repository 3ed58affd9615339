"""The environment: what each variable says, and what it must hold."""

import dataclasses
import re
from pathlib import Path

import pytest

import orchtrace_otel
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.settings import CAPTURE_VARIABLE, Settings, misspelled, option


def test_an_empty_environment_is_the_defaults() -> None:
    """Nothing leaves the process unless somebody asks."""
    assert Settings.from_env({}) == dataclasses.replace(Settings(), otel={})


def test_every_variable_is_read() -> None:
    """Each in its field."""
    read = Settings.from_env(
        {
            "ORCHTRACE_EXPORTERS": " jsonl:traces/ , http:https://x ,",
            "ORCHTRACE_KEY": "secret",
            "ORCHTRACE_STORE": "store/",
            "ORCHTRACE_MAX_OPEN_RUNS": "1",
            "ORCHTRACE_MAX_SPANS": " 2 ",
            "ORCHTRACE_MAX_RUN_SECONDS": "3",
            "ORCHTRACE_QUEUE_SIZE": "4",
            "OTEL_SDK_DISABLED": "TRUE",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            CAPTURE_VARIABLE: "span_only",
            "PATH": "/bin",
        }
    )
    assert dataclasses.replace(read, otel=None) == Settings(
        exporters=("jsonl:traces/", "http:https://x"),
        capture="SPAN_ONLY",
        key="secret",
        store="store/",
        max_open_runs=1,
        max_spans=2,
        max_run_seconds=3,
        queue_size=4,
        sdk_disabled=True,
        otlp_wanted=True,
        otlp_protocol="grpc",
        otel=None,
    )
    assert set(read.otel or {}) == {
        "OTEL_SDK_DISABLED",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        CAPTURE_VARIABLE,
    }


@pytest.mark.parametrize(
    "variable",
    [
        "ORCHTRACE_MAX_OPEN_RUNS",
        "ORCHTRACE_MAX_SPANS",
        "ORCHTRACE_MAX_RUN_SECONDS",
        "ORCHTRACE_QUEUE_SIZE",
    ],
)
@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "1e3"])
def test_a_limit_that_is_no_count_is_refused(variable: str, value: str) -> None:
    """The error names the variable, what it must hold and what came."""
    with pytest.raises(
        ConfigError,
        match=f"{variable} must be a whole number above 0, got {re.escape(repr(value))}",
    ):
        Settings.from_env({variable: value})


@pytest.mark.parametrize("value", ["", "true", "ALL", "yes please"])
def test_an_unknown_capture_mode_captures_nothing(value: str) -> None:
    """As the conventions say."""
    assert Settings.from_env({CAPTURE_VARIABLE: value}).capture == "NO_CONTENT"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console,otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp_proto_grpc"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
    ids=str,
)
def test_spans_are_shipped_only_where_a_variable_asks(
    environment: dict[str, str], wanted: bool
) -> None:
    """A process that nobody pointed at a collector must not look for one."""
    assert Settings.from_env(environment).otlp_wanted is wanted


def test_other_exporters_of_spans_are_named_and_an_official_one_says_what_it_speaks() -> None:
    """As the SDK's own set-up takes them."""
    read = Settings.from_env({"OTEL_TRACES_EXPORTER": "console, otlp_proto_grpc, none"})
    assert (read.span_exporters, read.otlp_protocol) == (("console",), "grpc")


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, ()),
        ({"OTEL_LOGS_EXPORTER": "none"}, ()),
        ({"OTEL_LOGS_EXPORTER": "console, otlp"}, ("console", "otlp_proto_http")),
        ({"OTEL_LOGS_EXPORTER": "otlp_proto_grpc"}, ("otlp_proto_grpc",)),
        (
            {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            ("otlp_proto_grpc",),
        ),
        (
            {
                "OTEL_LOGS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf",
            },
            ("otlp_proto_http",),
        ),
    ],
)
def test_exporters_of_log_events_are_named_and_otlp_is_what_speaks_the_protocol(
    environment: dict[str, str], named: tuple[str, ...]
) -> None:
    """Where nobody asks there are none: an endpoint alone is for spans."""
    assert Settings.from_env(environment).log_exporters == named


@pytest.mark.parametrize("value", ["", "false", "0", "no"])
def test_the_sdk_is_disabled_by_true_alone(value: str) -> None:
    """As OpenTelemetry has it."""
    assert Settings.from_env({"OTEL_SDK_DISABLED": value}).sdk_disabled is False


@pytest.mark.parametrize(("given", "chosen"), [(None, "this"), ("", "this"), (" THAT ", "that")])
def test_option_of_an_adapter_is_one_of_its_choices(given: str | None, chosen: str) -> None:
    """The first unless set; in any case."""
    environment = {} if given is None else {"ORCHTRACE_SOME_CHOICE": given}
    assert option("some", "choice", ["this", "that"], environment) == chosen


def test_option_that_is_no_choice_is_told() -> None:
    """Set-up fails loudly, and says what to do."""
    with pytest.raises(ConfigError, match="ORCHTRACE_SOME_CHOICE must be one of this, that"):
        option("some", "choice", ["this", "that"], {"ORCHTRACE_SOME_CHOICE": "other"})


def test_no_other_module_reads_the_environment() -> None:
    """Settings is the one reader: what a process does can be seen in one place."""
    core = Path(orchtrace_otel.__file__).parent
    readers = {
        path.relative_to(core).as_posix()
        for path in core.rglob("*.py")
        if re.search(r"\bos\.(environ|getenv)\b", path.read_text())
    }
    assert readers == {"settings.py"}


def test_variables_that_are_right_or_of_others_are_not_misspelled() -> None:
    """Those of exporters are theirs; those of tests are like none of ours."""
    others = ("AUTOGEN_STATE", "AUTOGEN_TELEMETRY", "LANGGRAPH_CHECKPOINTS", "HTTP_TOKEN")
    ours = ("EXPORTERS", "KEY", "STORE", "MAX_OPEN_RUNS", "MAX_SPANS", "QUEUE_SIZE")
    more = ("HTTP_HEADERS", "HTTP_SPOOL", "RANDOM_GRAPHS", "KILLS", "E2E_RUNS")
    names = {f"ORCHTRACE_{name}": "x" for name in (*others, *ours, *more)}
    assert misspelled(environ={**names, "OTEL_EXPORTERS": "x", "EXPORTER": "x"}) == {}
    assert misspelled(environ={"ORCHTRACE_MAX_RUNS": "5"}) == {
        "ORCHTRACE_MAX_RUNS": "ORCHTRACE_MAX_OPEN_RUNS"
    }


def test_options_of_adapters_are_known_to_the_search_for_misspelled_variables() -> None:
    """Right ones are left alone; what nearly is one is told with it."""
    options = ["ORCHTRACE_RELAY_STATE", "ORCHTRACE_RELAY_TELEMETRY"]
    environment = {"ORCHTRACE_RELAY_STATE": "x", "ORCHTRACE_RELAY_TELEMETERY": "x"}
    assert misspelled(options, environment) == {
        "ORCHTRACE_RELAY_TELEMETERY": "ORCHTRACE_RELAY_TELEMETRY"
    }
