"""The core loads no framework, and works where none is installed."""

import subprocess
import sys
import textwrap

import pytest

FRAMEWORKS = (
    "autogen_agentchat",
    "autogen_core",
    "autogen_ext",
    "langchain_core",
    "langgraph",
)
OPTIONAL = (
    *FRAMEWORKS,
    "click",
    "grpc",
    "jsonschema",
    "jsonschema_rs",
    "opentelemetry.exporter",
    "orchtrace_autogen",
    "orchtrace_files",
    "orchtrace_langgraph",
    "orchtrace_otlp",
    "rich",
    "starlette",
    "uvicorn",
)


def without(*absent: str) -> str:
    """Code that makes packages look as if they were not installed, neither module nor metadata."""
    return f"""
import importlib.metadata, sys

ABSENT = {absent!r}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == top or name.startswith(top + ".") for top in ABSENT):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def version(name, real=importlib.metadata.version):
    if name.replace("-", "_") in ABSENT:
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)

sys.meta_path.insert(0, Absent())
importlib.metadata.version = version
"""


def run(code: str) -> str:
    """Run code in a fresh interpreter and give back what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_importing_the_core_loads_no_framework() -> None:
    """After the import, none of the optional packages is in sys.modules."""
    loaded = run(
        f"""
        import sys
        import orchtrace_otel
        print([name for name in {OPTIONAL!r} if name in sys.modules])
        """
    )
    assert loaded.strip() == "[]"


def test_decorators_work_where_no_extra_is_installed() -> None:
    """With every optional package absent, a decorated team runs and is recorded."""
    printed = run(
        without(*OPTIONAL)
        + textwrap.dedent(
            """
            import orchtrace_otel as orchtrace
            from orchtrace_otel.testing import capture

            @orchtrace.agent("adder")
            def add(a, b):
                return a + b

            @orchtrace.team("sums")
            def sums():
                return add(1, 2)

            with capture() as seen:
                print(sums())
            print(len(seen.traces))
            """
        )
    )
    assert printed.split() == ["3", "1"]


@pytest.mark.parametrize("framework", ["autogen", "langgraph"])
def test_asking_for_an_absent_framework_says_what_to_install(framework: str) -> None:
    """By name it is an error that holds the install line."""
    printed = run(
        without(*FRAMEWORKS)
        + textwrap.dedent(
            f"""
            import orchtrace_otel as orchtrace

            try:
                orchtrace.instrument({framework!r})
            except orchtrace.MissingDependencyError as error:
                print(error)
            """
        )
    )
    assert f"pip install 'orchtrace-otel[{framework}]'" in printed


def test_finding_frameworks_by_itself_is_silent_where_there_is_none() -> None:
    """instrument() without names neither fails nor says a word when nothing is installed."""
    printed = run(
        without(*FRAMEWORKS)
        + textwrap.dedent(
            """
            import orchtrace_otel as orchtrace

            orchtrace.instrument().uninstrument()
            """
        )
    )
    assert printed == ""
