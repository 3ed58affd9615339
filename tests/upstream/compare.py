"""A framework's own tests, without us and traced: `python -m tests.upstream.compare --help`.

The sharpest record of what a framework's users see is the suite of the framework itself. Each
test must end as it does without us, and what was recorded of it must be sound.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KNOWN = {
    "test_register_receives_publish": "AutoGen's spans of messages are off while ours are on",
}
"""Tests that end otherwise on purpose, by the part of their name that says which, and why."""

Rows = dict[str, dict[str, Any]]


def run(args: argparse.Namespace, tests: Sequence[str], *, traced: bool) -> Rows:
    """Run tests in the suite's own folder; return what the plugin noted, by test."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.jsonl"
        paths = [".", ROOT, ROOT / "adapters", ROOT / "exporters", ROOT / "tests" / "upstream"]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "SUITE_REPORT": str(report),
            **({"SUITE_TRACED": args.framework} if traced else {}),
        }
        command = [args.python, "-m", "pytest", "-q", "-p", "watched_suite", *args.pytest, *tests]
        subprocess.run(command, cwd=args.suite.parent, env=env, stdout=sys.stderr, check=False)
        rows = map(json.loads, report.read_text().splitlines() if report.exists() else ())
        return {row["test"]: row for row in rows}


def has_races(args: argparse.Namespace, test: str) -> bool:
    """Whether a test ends one way and the other without us too: suites have races of their own."""
    ends = {True: set[str](), False: set[str]()}
    for _ in range(args.repeats):
        for traced, seen in ends.items():
            seen.add(run(args, [test], traced=traced).get(test, {}).get("outcome", "unknown"))
    return ends[True] == ends[False] or len(ends[False]) > 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", help="whose adapter traces: langgraph or autogen")
    parser.add_argument("suite", type=Path, help="folder of the framework's tests")
    parser.add_argument("--python", default=sys.executable, help="with what the tests need")
    parser.add_argument("--repeats", type=int, default=5, help="of a test that ends otherwise")
    parser.add_argument(
        "--pytest", default=[], type=shlex.split, help="further arguments of pytest"
    )
    args = parser.parse_args()
    args.suite = args.suite.resolve()
    plain = run(args, [args.suite.name], traced=False)
    traced = run(args, [args.suite.name], traced=True)
    if not plain:
        print(f"no test was run in {args.suite}; is everything that they need installed?")
        return 1
    if not traced:  # each test would be run again and again, to see how it ends
        print(f"no test was run when traced; is orchtrace-otel installed in {args.python}?")
        return 1
    others = [test for test, row in plain.items() if _outcome(traced, test) != row["outcome"]]
    on_purpose = {test: why for test in others for part, why in KNOWN.items() if part in test}
    changed = [test for test in others if test not in on_purpose and not has_races(args, test)]
    faults = [(test, fault) for test, row in traced.items() for fault in row["faults"]]
    for test in others:
        why = "" if test in changed else on_purpose.get(test, "either way when it is run again")
        print(f"{test}: {plain[test]['outcome']}, traced {_outcome(traced, test)} {why}".rstrip())
    for test, fault in faults:
        print(f"{test}: {fault}")
    spans, traces = (sum(row[what] for row in traced.values()) for what in ("spans", "traces"))
    passed = sum(row["outcome"] == "passed" for row in plain.values())
    print(
        f"{len(plain)} tests, {passed} pass without us; {len(changed)} end otherwise when traced; "
        f"{spans} spans, {traces} traces, {len(faults)} faults"
    )
    return 1 if changed or faults else 0


def _outcome(rows: Rows, test: str) -> str:
    return str(rows.get(test, {}).get("outcome", "unknown"))


if __name__ == "__main__":
    sys.exit(main())
