"""When install.sh builds pyslurm, and what it says when it does not: with a Python and a pip that only pretend. The real
thing: test_pyslurm_cluster.py."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installer.place import Place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="installing needs root")

#: ``-m venv DIR`` makes copies of itself; ``-c`` does what the files in $WORLD say.
PYTHON = """
case $1 in
    -m)
        [ "$2" = venv ] || exit 0
        mkdir -p "$3/bin"
        for name in python pip slurm-triage; do cp "$0" "$3/bin/$name"; done
        echo old >"$3/state"
        exit 0 ;;
    -c)
        case $2 in
            *"import pyslurm"*) [ -e "$WORLD/works" ] ;;
            *version*pyslurm*) cat "$WORLD/installed" 2>/dev/null ;;
            *Python.h*) [ ! -e "$WORLD/no-python-dev" ] ;;
            *) exit 0 ;;
        esac
        exit ;;
esac
case ${0##*/} in
    slurm-triage) [ ! -e "$WORLD/program-broken" ]; exit ;;
    pip)
        echo "$* LIB=${SLURM_LIB_DIR-} INC=${SLURM_INCLUDE_DIR-}" >>"$WORLD/pip"
        case "$*" in
            *download*) [ -e "$WORLD/index" ] || { echo "no matching distribution" >&2; exit 1; } ;;
            *"install -v "*) [ ! -e "$WORLD/build-fails" ] || { echo "error: boom" >&2; exit 1; } ;;
            *uninstall*) rm -f "$WORLD/installed" ;;
            *--upgrade*) echo new >"${0%/bin/pip}/state"; [ ! -e "$WORLD/pip-fails" ] ;;
        esac
        exit ;;
esac
"""


class World(Place):
    """A prefix with Slurm's commands, headers and library, and a Python of our own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "25.11.2")
        self.python = None
        (directory / "world").mkdir()
        slurm = directory / "slurm-25.11"
        for name in ("bin", "include/slurm", "lib/slurm"):
            (slurm / name).mkdir(parents=True)
        (self.fake / "sacct").rename(slurm / "bin/sacct")
        (self.fake / "sacct").symlink_to(slurm / "bin/sacct")
        self.headers = slurm / "include/slurm/slurm_version.h"
        self.headers.write_text("#define SLURM_VERSION_NUMBER 0x190b02\n")
        self.library = slurm / "lib/slurm/libslurmfull.so"
        self.library.write_text("")
        for name in ("python3", "python3.14"):
            self.command(name, PYTHON)
        self.command("gcc", "exit 0")
        self.command("cc", "exit 0")

    def is_so(self, *names: str) -> None:
        for name in names:
            (self.directory / "world" / name).write_text("25.11.2\n")

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "WORLD": str(self.directory / "world")}

    def pip(self) -> str:
        path = self.directory / "world/pip"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def world() -> Iterator[World]:
    directory = Path(tempfile.mkdtemp(prefix="slurm-triage-test-"))
    directory.chmod(0o755)
    yield World(directory)
    shutil.rmtree(directory)


def test_built_against_the_sites_own_slurm(world: World) -> None:
    world.is_so("index", "works")
    output = world.run().stdout
    assert "accounting through pyslurm 25.11" in output
    (built,) = [line for line in world.pip().splitlines() if "install -v" in line]
    slurm = world.directory / "slurm-25.11"
    assert built.endswith(f"LIB={slurm}/lib/slurm INC={slurm}/include")
    assert "download --quiet --no-deps --no-binary pyslurm" in world.pip()
    assert "pyslurm==25.11.*" in world.pip()


def test_not_built_again(world: World) -> None:
    world.is_so("index", "works", "installed")
    assert "accounting through pyslurm 25.11" in world.run().stdout
    assert "install -v" not in world.pip()


def test_one_of_another_release_goes(world: World) -> None:
    world.is_so("works")
    (world.directory / "world/installed").write_text("24.11.0\n")
    assert "the package index has no pyslurm 25.11" in world.run().stdout
    assert "uninstall --quiet --yes pyslurm" in world.pip()


@pytest.mark.parametrize(
    "files, missing, reason",
    [
        ((), "", "the package index has no pyslurm 25.11"),
        (("index", "build-fails"), "", "pyslurm 25.11 does not build here (see"),
        (("index",), "", "pyslurm 25.11 was built but cannot be used with"),
        (("index", "no-python-dev"), "", "Python's headers (python3-dev) are not installed"),
        (("index", "works"), "library", "libslurmfull.so is not below"),
        (("index", "works"), "release", "the headers in"),
    ],
)
def test_why_not(world: World, files: tuple[str, ...], missing: str, reason: str) -> None:
    world.is_so(*files)
    if missing == "library":
        world.library.unlink()
    if missing == "release":
        world.headers.write_text("#define SLURM_VERSION_NUMBER 0x180b05\n")
    output = world.run().stdout
    assert f"accounting through sacct 25.11.2: {reason}" in " ".join(output.split())
    assert "To change that: install a pyslurm that is built for this Slurm" in output
    log = world.path("opt/pyslurm-build.log")
    assert log.exists() == ("build-fails" in files)
    if log.exists():
        assert "error: boom" in log.read_text()
    world.run("--uninstall", "--purge")
    assert not world.path("opt").exists()


def test_not_wanted(world: World) -> None:
    world.is_so("index", "works")
    assert "accounting through sacct 25.11.2: pyslurm was not wanted (--no-pyslurm)" in world.run("--no-pyslurm").stdout
    assert "pyslurm" not in world.pip()


def test_a_dry_run_does_not_try(world: World) -> None:
    output = world.run("--dry-run").stdout
    assert "accounting through pyslurm 25.11 if the package index has it, else through sacct 25.11.2" in output
    assert world.pip() == ""


@pytest.mark.parametrize("broken", ["pip-fails", "program-broken"])
def test_a_failed_upgrade_leaves_the_old_program(world: World, broken: str) -> None:
    world.run()
    state = world.path("opt/venv/state")
    assert state.read_text() == "new\n"
    state.write_text("old\n")
    before = world.snapshot()
    world.is_so(broken)
    assert world.run(check=False).returncode == 1
    assert world.snapshot() == before
    (world.directory / "world" / broken).unlink()
    world.run()
    assert state.read_text() == "new\n"
    assert {path.name for path in world.path("opt").iterdir()} == {"venv"}


def test_a_failed_first_installation_leaves_no_program(world: World) -> None:
    before = world.snapshot()
    world.is_so("pip-fails")
    result = world.run(check=False)
    assert "pip could not install slurm-triage and what it needs; is a package index reachable?" in result.stderr
    assert world.snapshot() == before
