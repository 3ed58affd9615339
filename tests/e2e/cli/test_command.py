"""The command itself as its user meets it: help, wrong usage, and ways to leave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli.commands import BARE, run

SCRIPT = Path(sys.executable).with_name("orchtrace")


def test_help_names_the_verbs() -> None:
    """A user finds every verb, and each has help of its own."""
    done = run("--help")
    assert done.returncode == 0
    for verb in ("demo", "doctor", "show", "validate"):
        assert f"\n  {verb} " in done.stdout
        told = run(verb, "--help")
        assert (told.returncode, f"Usage: orchtrace {verb}" in told.stdout) == (0, True)


def test_the_script_is_the_module() -> None:
    """`orchtrace` and `python -m orchtrace_otel.cli` are the same."""
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout
    assert done.stdout.startswith("orchtrace 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("draw",),
        ("show",),
        ("show", "nowhere.jsonl"),
        ("validate", "nowhere.jsonl"),
        ("demo", "--otlp", "localhost:4318"),
        ("demo", "--out"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """What was typed wrongly is told on standard error, with exit code 2."""
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_a_verb_that_is_misspelt_is_told_with_those_like_it() -> None:
    """Whichever release of click is there."""
    said = [run(verb).stderr.splitlines()[-1] for verb in ("shwo", "reward", "xyzzy")]
    assert said[0] == "Error: No such command 'shwo'. Did you mean 'show'?"
    assert said[1] == "Error: No such command 'reward'. Did you mean 'rewards'?"
    assert said[2] == "Error: No such command 'xyzzy'."


@pytest.mark.parametrize("absent", ["click", "rich"])
def test_without_its_extra_the_command_says_how_to_get_it(absent: str) -> None:
    """The line that installs it, exit code 2, and nothing else."""
    hide = f"import sys; sys.modules[{absent!r}] = None"
    code = f"{hide}; from orchtrace_otel.cli import main; main()"
    done = run(prefix=("-c", code))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip().endswith("run: pip install 'orchtrace-otel[cli]'")


def test_an_impatient_user_gets_no_traceback() -> None:
    """Ctrl-C ends the command with 130, also while it still loads."""
    interrupt = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'rich.console': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from orchtrace_otel.cli import main; main()"
    )
    done = run(prefix=("-c", interrupt))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`orchtrace validate ... | head -1` ends quietly."""
    (tmp_path / "bad.jsonl").write_text("{}\n" * 20_000)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m orchtrace_otel.cli validate bad.jsonl | head -1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=BARE,
        check=True,
    )
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
