"""The built wheel holds every package of the source roots, and nothing else."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = (ROOT / "adapters", ROOT / "exporters")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the tree as it is now, with the build back end already installed."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def packages() -> list[Path]:
    """The core, and every folder under the source roots."""
    found = [ROOT / "orchtrace_otel"]
    for source_root in SOURCE_ROOTS:
        found += [path for path in source_root.iterdir() if path.is_dir()]
    return [path for path in found if path.name != "__pycache__"]


def shipped_files(package: Path) -> set[str]:
    """Names, as the wheel writes them, of all files of a package except compiled ones."""
    return {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_holds_every_file_of_every_package(wheel: Path) -> None:
    """Code, py.typed and JSON data of each folder are in it, and nothing besides."""
    expected = set().union(*(shipped_files(package) for package in packages()))
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_every_package_is_typed_and_a_real_package() -> None:
    """Each folder has py.typed and an __init__.py; the source roots themselves have none."""
    for package in packages():
        assert (package / "py.typed").is_file(), package
        assert (package / "__init__.py").is_file(), package
    for source_root in SOURCE_ROOTS:
        assert not list(source_root.glob("*.py"))


def test_wheel_declares_the_entry_points_of_the_project(wheel: Path) -> None:
    """Adapters, exporters, the instrumentor and the command can be found once it is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    archive = zipfile.ZipFile(wheel)
    (listing,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
    text = archive.read(listing).decode()
    for group, entries in project["entry-points"].items():
        assert f"[{group}]" in text
        for name, target in entries.items():
            assert f"{name} = {target}" in text
    assert "orchtrace = orchtrace_otel.cli:main" in text


def test_packages_are_imported_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Unpacked alone, each package imports from where it was unpacked."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    names = sorted(package.name for package in packages())
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + "".join(
        f"import {name}; assert {name}.__file__.startswith({str(tmp_path)!r})\n" for name in names
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
