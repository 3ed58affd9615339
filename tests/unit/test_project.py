"""The project's own files keep their promises to someone with a bare machine."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def fake_python(folder: Path, version: str) -> Path:
    """A program that answers like a Python of a version that does not suit."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo "Python {version}" && exit 0\nexit 1\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("target", ["demo", "test", "test-lowest"])
@pytest.mark.parametrize("version", ["2.7.18", "3.10.13", "3.14.0"])
def test_make_says_plainly_that_the_python_does_not_suit(
    tmp_path: Path, version: str, target: str
) -> None:
    """The message holds what is needed, what was found and what to do; nothing is made."""
    venv = tmp_path / "venv"
    done = subprocess.run(
        [
            "make",
            target,
            f"PYTHON={fake_python(tmp_path, version)}",
            f"VENV={venv}",
            f"LOWEST={venv}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"needs Python 3.11, 3.12 or 3.13, found Python {version}" in done.stderr
    assert f"make {target} PYTHON=" in done.stderr
    assert not venv.exists()


def test_core_depends_on_no_more_than_it_may() -> None:
    """OpenTelemetry, wrapt and orjson are all that a bare install brings along."""
    names = {re.split(r"[<>=!]", line)[0] for line in PROJECT["dependencies"]}
    assert names <= {
        "opentelemetry-api",
        "opentelemetry-sdk",
        "opentelemetry-semantic-conventions",
        "opentelemetry-instrumentation",
        "opentelemetry-instrumentation-threading",
        "wrapt",
        "orjson",
    }


def user_dependencies() -> list[str]:
    """What users install: the core's dependencies and those of every extra but `dev`."""
    extras = PROJECT["optional-dependencies"]
    return PROJECT["dependencies"] + [
        line for name, extra in extras.items() if name not in {"all", "dev"} for line in extra
    ]


def test_every_range_has_both_ends() -> None:
    """A dependency that users install has a tried floor and a ceiling."""
    for line in user_dependencies():
        assert ">=" in line, line
        assert re.search(r"<\d", line), line


def test_lowest_constraints_name_the_floor_of_every_range() -> None:
    """What `make test-lowest` installs is the floor that pyproject.toml states."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "tests" / "lowest.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    for line in user_dependencies():
        name, floor = re.match(r"([\w-]+)(?:\[\w+\])?>=([\w.]+)", line).groups()
        assert pins[name] == floor, line


@pytest.mark.parametrize(
    "entry",
    [
        entry
        for group in (
            "orchtrace.adapter",
            "orchtrace.exporter",
            "orchtrace.reward",
            "opentelemetry_instrumentor",
        )
        for entry in metadata.entry_points(group=group)
        if entry.dist is not None and entry.dist.name == "orchtrace-otel"
    ],
    ids=lambda entry: f"{entry.group}:{entry.name}",
)
def test_entry_points_lead_to_something_callable(entry: metadata.EntryPoint) -> None:
    """Each name that discovery finds can be loaded."""
    assert callable(entry.load())


README = (ROOT / "README.md").read_text()


def test_example_of_the_readme_runs_and_leaves_one_sound_trace(tmp_path: Path) -> None:
    """What a new user copies first works as it stands."""
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "web on tides; papers on tides\n"
    checked = subprocess.run(
        [sys.executable, "-m", "orchtrace_otel.cli", "validate", "orchtrace-data"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "1 trace in 1 file: 1 sound\n")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_and_make_targets_of_the_pages_exist(page: str) -> None:
    """No page points at a file or at a target that is not there."""
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^(?:.*`)?make ([a-z-]+)", text, flags=re.MULTILINE)) <= targets


def test_readme_names_every_extra_adapter_exporter_and_command() -> None:
    """What pyproject.toml offers is in the README's tables."""
    named = set(re.findall(r"`([\w-]+)", README))
    offered = set(PROJECT["optional-dependencies"])
    for group in ("orchtrace.adapter", "orchtrace.exporter"):
        offered |= set(PROJECT["entry-points"][group])
    assert offered <= named
