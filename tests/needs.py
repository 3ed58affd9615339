"""What an example needs beside this package's extras, and whether it is installed."""

from importlib import metadata

# The least first number of a release.
NEEDS = {"langgraph_handoff.py": {"langchain": 1, "langgraph-swarm": 0}}


def lacking(example: str) -> list[str]:
    """What an example needs and this environment has not, or has too old a release of."""
    return [name for name, least in NEEDS.get(example, {}).items() if _release(name) < least]


def _release(name: str) -> int:
    try:
        return int(metadata.version(name).partition(".")[0])
    except metadata.PackageNotFoundError:
        return -1
