"""Manual page and completions say what the parsers say, are valid, and are installed with the wheel."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
SHARE = ROOT / "share"
MAN = SHARE / "man" / "man1" / "slurm-triage.1"
BASH = SHARE / "bash-completion" / "completions" / "slurm-triage"
ZSH = SHARE / "zsh" / "site-functions" / "_slurm-triage"


def load(name: str) -> Any:
    """A module of the generator, which is no package of the program."""
    sys.path.insert(0, str(SHARE))
    try:
        spec = importlib.util.spec_from_file_location(name, SHARE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SHARE))
    return module


source = load("commands")
EVERY = dict(source.every(source.commands()))


def test_all_files_are_in_step_with_the_parsers() -> None:
    done = subprocess.run(
        [sys.executable, str(SHARE / "generate.py"), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_changed_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = load("generate")
    monkeypatch.setattr(generate, "HERE", tmp_path)
    assert len(generate.stale()) == 3
    assert generate.main([]) == 0
    assert generate.stale() == []
    (tmp_path / "man" / "man1" / "slurm-triage.1").write_text("old")
    assert [path.name for path in generate.stale()] == ["slurm-triage.1"]


def test_every_command_is_there() -> None:
    assert [name for name in EVERY if " " not in name] == list(COMMANDS)
    assert {"ledger verify", "rules backtest"} <= set(EVERY)


# -- manual page --------------------------------------------------------------------------------------------------


def test_the_manual_names_every_command_and_option() -> None:
    text = MAN.read_text().replace("\\-", "-")
    for name, command in EVERY.items():
        section = text.partition(f'.SS "slurm-triage {name}')[2].partition("\n.S")[0]
        assert section, name
        for option in command.options:
            if option.help and "--help" not in option.names:
                assert all(f"\\fB{word}\\fR" in section for word in option.names), (name, option.names)


def test_the_manual_names_every_variable() -> None:
    text = MAN.read_text()
    code = "".join(p.read_text() for p in (ROOT / "slurm_triage").rglob("*.py"))
    used = set(re.findall(r'"(SLURM_TRIAGE_[A-Z_]+[A-Z])"', code)) | {"NO_COLOR", "JOB_WORKSPACE"}
    # These are set for the programs that the worker starts.
    used -= {name for name in used if re.search(rf'"{name}":', code)}
    assert all(f".B {name}\n" in text for name in used), used


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(MAN)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("lexgrog") is None, reason="needs man-db")
def test_apropos_finds_it() -> None:
    done = subprocess.run(["lexgrog", str(MAN)], capture_output=True, text=True, timeout=60)
    assert 'slurm-triage - explains why a Slurm job ended the way it did"' in done.stdout


# -- bash ---------------------------------------------------------------------------------------------------------


def complete(*words: str, cwd: Path = ROOT) -> list[str]:
    """What bash offers for the last of ``words``."""
    script = (
        f'source "{BASH}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _slurm_triage; '
        '((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"; true'
    )
    done = subprocess.run(
        ["bash", "--norc", "-uc", script, "bash", "slurm-triage", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


def test_bash_offers_the_commands() -> None:
    assert complete("") == list(COMMANDS)
    assert complete("re") == ["resubmit"]
    assert complete("--v") == ["--version"]


@pytest.mark.parametrize("name", EVERY)
def test_bash_offers_the_options_of_a_command(name: str) -> None:
    wanted = [word for option in EVERY[name].options for word in option.names]
    assert complete(*name.split(), "-") == wanted
    assert complete(*name.split(), "--json", "-") == wanted


def test_bash_offers_what_fits_an_option_or_argument(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("")
    (tmp_path / "sub").mkdir()
    assert complete("ledger", "") == [c.name for c in EVERY["ledger"].actions]
    assert complete("ledger", "export", "--format", "c") == ["csv"]
    assert sorted(complete("log", "", cwd=tmp_path)) == ["a.log", "sub"]
    assert complete("log", "--outputs", "", cwd=tmp_path) == ["sub"]
    assert complete("metrics", "--write", "", cwd=tmp_path) == ["sub"]
    assert complete("list", "-u", "") == []
    assert complete("config", "") == ["show"]
    # A file that is called like a command changes nothing.
    assert complete("log", "watch", "--md") == complete("log", "--md")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck() -> None:
    # SC2207: compgen's words have no blanks, except names of files, which bash 3 and 4 can give in no other way.
    done = subprocess.run(
        ["shellcheck", "-s", "bash", "-e", "SC2207,SC2034", str(BASH)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


# -- zsh ----------------------------------------------------------------------------------------------------------


def test_zsh_knows_every_command_and_option() -> None:
    text = ZSH.read_text()
    assert text.startswith("#compdef slurm-triage\n")
    for name, command in EVERY.items():
        assert f"'{name.split()[-1]}:" in text, name
        assert all(word in text for option in command.options for word in option.names)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_accepts_every_specification() -> None:
    """Runs the function with stand-ins that record what they are given, and checks each specification's form."""
    form = r"""
        _describe() { :; }; _message() { :; }; _files() { :; }
        _arguments() {
            [[ $1 == -C ]] && { state=$WANTED; line=($CHOICE); return; }
            print -rl -- "$@"
        }
        autoload_text=$(<$1); eval "_main() { ${autoload_text%_slurm-triage *} }"
        _main; WANTED=rest; CHOICE=$2; line=($2); _slurm-triage
    """
    for name in (n for n, c in EVERY.items() if " " not in n and not c.actions):
        done = subprocess.run(["zsh", "-fc", form, "zsh", str(ZSH), name], capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, ""), name
        specs = [s for s in done.stdout.split("\n") if s not in ("", "-s")]
        names = {word for option in EVERY[name].options for word in option.names}
        assert {n for s in specs for n in re.findall(r"^(?:\([^)]*\))?(-[\w-]+)\[", s)} == names
        for spec in specs:
            assert re.fullmatch(
                r"(?:\([^)]*\))?-[\w-]+\[(?:[^\[\]\\]|\\.)*\](?::{1,2}[^:]+:[^:]+)?|(?:\*|\d+:?):[^:]+:[^:]+", spec
            ), spec


# -- wheel --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="needs hatchling")
def test_the_wheel_installs_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    for path in (MAN, BASH, ZSH):
        assert any(name.endswith(f".data/data/{path.relative_to(ROOT)}") for name in names), path
