"""`orchtrace doctor` tells what is wrong, and what to do."""

from __future__ import annotations

import json

from tests.e2e.cli.commands import run


def test_the_doctor_finds_nothing_wrong_here() -> None:
    """In the environment of these tests everything is found, and nothing is wrong."""
    done = run("doctor")
    assert done.returncode == 0
    for told in ("Python", "opentelemetry-sdk", "langgraph", "autogen", "jsonl", "NO_CONTENT"):
        assert told in done.stdout
    assert "Nothing is wrong." in done.stdout


def test_the_doctor_says_what_is_wrong_and_what_to_do() -> None:
    """What costs data is counted, told in words, and makes the exit code 1."""
    environ = {
        "OTEL_SPAN_LINK_COUNT_LIMIT": "4",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    }
    done = run("doctor", "--json", **environ)
    report = json.loads(done.stdout)
    wrong = [one for one in report["findings"] if one["level"] == "wrong"]
    assert (done.returncode, report["ok"]) == (1, False)
    assert [(one["name"], one["advice"]) for one in wrong] == [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "start the collector, or correct the address"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "set it to 128 or more, or unset it"),
    ]
    assert "2 things are wrong" in run("doctor", **environ).stdout


def test_advice_can_be_copied_whole() -> None:
    """However narrow the screen is, no line of the report is cut or broken."""
    done = run("doctor", COLUMNS="40")
    advice = "to send them, set OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318"
    assert f"\n         {advice}\n" in done.stdout


def test_a_setting_of_ours_that_is_wrong_is_told() -> None:
    """A variable that configure() would refuse is told, not raised."""
    done = run("doctor", ORCHTRACE_MAX_SPANS="many")
    assert done.returncode == 1
    assert "ORCHTRACE_MAX_SPANS must be a whole number above 0, got 'many'" in done.stdout


def test_a_variable_that_is_nearly_one_of_ours_is_told() -> None:
    """It is read by nobody, and what it asks for does not happen."""
    done = run("doctor", ORCHTRACE_EXPORTER="jsonl:traces/")
    assert done.returncode == 1
    told = "  wrong  ORCHTRACE_EXPORTER  read by nobody\n         write ORCHTRACE_EXPORTERS\n"
    assert told in done.stdout
