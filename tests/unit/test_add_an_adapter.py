"""The pages of docs/ that add an adapter, an exporter and a data set, walked through."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def install(folder: Path, project: dict) -> None:
    """Write what pip would write of a project: its metadata."""
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    for extra, wanted in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one} ; extra == "{extra}"' for one in wanted]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in project.get("entry-points", {}).items()
    ]
    (info / "entry_points.txt").write_text("".join(groups))


def walk(page: str, folder: Path) -> None:
    """Write every block of a page to its file, and install what its pyproject.toml says."""
    for name, text in BLOCK.findall((ROOT / "docs" / page).read_text()):
        (folder / name).write_text(text)
    install(folder, tomllib.loads((folder / "pyproject.toml").read_text())["project"])
    (folder / "pyproject.toml").unlink()


def python(folder: Path, *args: str) -> str:
    """Run this Python in a folder; return what it printed."""
    done = subprocess.run(
        [sys.executable, *args], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=.")


def test_the_steps_to_an_adapter_lead_to_one(tmp_path: Path) -> None:
    """The page's adapter passes the kit, and is found by its name."""
    walk("add-an-adapter.md", tmp_path)
    install(tmp_path, {"name": "relay", "version": "1.0"})
    assert " passed" in python(tmp_path, *PYTEST, "test_relay.py")
    code = """
import orchtrace_otel as orchtrace, relay
from orchtrace_otel.testing import strict
with strict() as captured, orchtrace.instrument("relay"):
    relay.Relay(relay.Agent("a", str.upper), relay.Agent("b", str.strip)).run(" x ")
print([event["to"] for event in captured.trace.events if event.verb in ("begin", "spawn")])
"""
    assert python(tmp_path, "-c", code) == "['relay', 'a', 'b']\n"


def test_the_steps_to_an_exporter_lead_to_one(tmp_path: Path) -> None:
    """The page's exporter passes the kit, and is found by its name."""
    walk("add-an-exporter.md", tmp_path)
    assert " passed" in python(tmp_path, *PYTEST, "test_folder.py")
    code = """
import orchtrace_otel as orchtrace
orchtrace.configure(exporters=["folder:runs/"])
orchtrace.agent(len, name="critic")("fine")
orchtrace.shutdown()
"""
    python(tmp_path, "-c", code)
    assert len(list((tmp_path / "runs").glob("*.json"))) == 1


def test_the_steps_to_a_data_set_lead_to_one(tmp_path: Path) -> None:
    """The page's format is found by its name, and makes records of runs with content."""
    walk("add-a-dataset.md", tmp_path)
    code = f"""
import sys
sys.path.append({str(ROOT)!r})
from pathlib import Path
from orchtrace_otel.datasets import Job, export
from tests.recorded import Recorder, siblings, write
recorder = Recorder(Path("."))
write(Path("in"), [siblings(recorder)])
report = export(Job(format="lines", content="content", validation=0), ["in"], Path("out"))
print(report.check.records, report.check.loses)
print(Path("out/train.jsonl").read_text().splitlines()[0])
"""
    counted, first = python(tmp_path, "-c", code).splitlines()
    assert counted == "3 ('tools: there is no place for them',)"
    assert first.startswith('{"asked":"How high is the tide?","answered":"answer 0",')


@pytest.mark.parametrize("page", ["add-an-adapter.md", "add-an-exporter.md", "add-a-dataset.md"])
def test_a_page_names_only_what_is_there(page: str) -> None:
    """Files and folders of this repository that a page names exist."""
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`((?:orchtrace_otel|tests|adapters|exporters|docs)/[\w/.]*)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
