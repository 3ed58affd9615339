"""`orchtrace doctor`: what is installed and configured here, and what is wrong with it."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from orchtrace_otel.cli._checks import what_is_configured, what_is_installed
from orchtrace_otel.cli._console import clean, out_json, tell_text
from orchtrace_otel.cli._finding import Finding
from orchtrace_otel.cli._summary import counted
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_NAME: Final = 35
_LEVEL_WIDTH: Final = 7
_STYLES: Final = {"ok": "green", "note": "yellow", "wrong": "bold red"}


@click.command("doctor", short_help="Say what is installed and configured, and what is wrong.")
@click.option("--json", "as_json", is_flag=True, help="Write the findings as JSON.")
def command(*, as_json: bool) -> int:
    """Look at versions, frameworks, exporters, endpoints, limits, sampling and content.

    Each finding is ok, a note (worth knowing) or wrong (costs data, or stops the work), with
    what to do. Exits with 1 where something is wrong. Exporters that ORCHTRACE_EXPORTERS
    names are opened, and endpoints asked for a connection; nothing is sent.
    """
    findings = _look()
    wrong = sum(finding.level == "wrong" for finding in findings)
    if as_json:
        out_json({"ok": wrong == 0, "findings": [asdict(finding) for finding in findings]})
        return int(wrong > 0)
    for topic, group in groupby(findings, key=lambda finding: finding.topic):
        tell_text(Text(topic.capitalize(), style="bold"))
        for line in _lines(list(group)):
            tell_text(line)
    tell_text(Text())
    tell_text(_verdict(findings, wrong))
    return int(wrong > 0)


def _look() -> list[Finding]:
    try:
        settings = Settings.from_env()
    except ConfigError as error:
        variable = str(error).partition(" ")[0]
        advice = "correct it first: what else the environment says is not looked at"
        return [*what_is_installed(), Finding("settings", "wrong", variable, str(error), advice)]
    return [*what_is_installed(), *what_is_configured(settings)]


def _lines(findings: list[Finding]) -> Iterator[Text]:
    """Write each finding on a line, and what to do below: whole, so that it can be copied."""
    width = min(max(len(finding.name) for finding in findings), _LONGEST_NAME)
    for finding in findings:
        line = Text(f"{finding.level:>{_LEVEL_WIDTH}}  ", style=_STYLES[finding.level])
        name = f"{clean(finding.name):<{width}}  "
        yield Text.assemble(line, name, clean(finding.found, longest=None))
        if finding.advice:
            indent = " " * (_LEVEL_WIDTH + 2)
            yield Text(indent + clean(finding.advice, longest=None), style="dim")


def _verdict(findings: list[Finding], wrong: int) -> Text:
    if wrong:
        things = "1 thing is" if wrong == 1 else f"{wrong} things are"
        return Text(f"{things} wrong; what to do stands under each.", style="bold red")
    notes = sum(finding.level == "note" for finding in findings)
    told = f" {counted(notes, 'note')} above." if notes else ""
    return Text(f"Nothing is wrong.{told}", style="green")
