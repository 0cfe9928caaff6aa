"""Bad input: one clear sentence on standard error, the documented exit status, nothing written half."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, run, sentence
from tests.pitfalls.logs import failed_rank, header, steps, summary
from tests.seed import jobs

GOOD = jobs.healthy("hello")
BAD = (
    header()
    + jobs.BEFORE_TRAINING
    + jobs.LAUNCH
    + steps(range(5))
    + "1: ValueError: x\n"
    + failed_rank(1, 1)
    + summary(1, "Training FAILED (exit=143)")
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "7-JAX-x.log"
    path.write_text(GOOD)
    return path


def test_what_is_no_log(tmp_path: Path, log: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name, words in [
        ("nosuch.log", "no file or directory"),
        ("pipe", "named pipe"),
        ("empty", "no log in"),
        ("loop", "leads nowhere"),
        ("/dev/zero", "device"),
        ("", "nothing is named"),
        ("/", "no log in /"),
        ("99999999", "no log or directory of job 99999999"),
        ("n" * 300, "cannot look at"),
        (f"{log.name}/x", "no file or directory"),
    ]:
        result = run("log", name, cwd=tmp_path)
        assert result.code == 3, (name, result)
        assert words in sentence(result)


def test_odd_contents_are_named(tmp_path: Path) -> None:
    """Empty and binary files are no error: a job may have printed nothing. The report says so."""
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 400)
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(BAD.encode())[:-300])
    (tmp_path / "nul.log").write_bytes(b"\0" * 100_000 + BAD.encode())
    (tmp_path / "hole.log").write_bytes(b"\0" * 100_000)
    for name, words in [
        ("empty.log", "The log is empty"),
        ("binary.log", "binary"),
        ("cut.log.gz", "cut.log.gz"),
        ("nul.log", "subprocess-fail"),
        ("hole.log", "nothing but NUL bytes"),
    ]:
        # Nobody may still be writing it.
        os.utime(tmp_path / name, (0, 0))
        result = run("log", name, cwd=tmp_path)
        assert (result.code, result.err) == (0, ""), name
        assert words in result.out
        assert "Do not run it again" not in result.out


def private_checkout() -> bool:
    """Whether another user could not even import the program from here."""
    here = Path(__file__).resolve()
    return any(not parent.stat().st_mode & 0o001 for parent in here.parents)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(private_checkout(), reason="this checkout lies in a directory that is private to its owner")
def test_unreadable(tmp_path: Path, log: Path) -> None:
    log.chmod(0)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    code = (
        # The interpreter itself may be private to root: what is needed is imported before.
        "import os, sys, slurm_triage.cli.log, slurm_triage.cli.main as command\n"
        "from slurm_triage.pipeline import Engine; Engine.load()\n"
        "os.setgroups([]); os.setgid(54321); os.setuid(54321); sys.exit(command.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "log", str(log)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=environment(HOME="/nonexistent"),
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert log.name in done.stderr


@pytest.mark.parametrize(
    "text, code",
    [
        ('{"state":', 2),
        ("[1, 2]", 2),
        ('{"state": "FAILED", "exit_code": "x:y"}', 2),
        ('{"state": "FAILED", "nodes": {"a": 1}}', 2),
        ("", 2),
        ("\udcff", 2),
        (None, 3),
    ],
)
def test_broken_accounting(text: str | None, code: int, tmp_path: Path, log: Path) -> None:
    record = tmp_path / "record.json"
    if text is not None:
        record.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("log", log, "--accounting", record, "--write")
    assert result.code == code
    assert "record.json" in sentence(result)
    assert sorted(p.name for p in tmp_path.iterdir() if "TRIAGE" in p.name.upper()) == []


@pytest.mark.parametrize(
    "args",
    [
        ("log",), ("log", "{log}", "--frobnicate"), ("log", "{log}", "--json", "--html"), ("log", "{log}", "--now", "tomorrow"),
        ("explain",), ("explain", "{log}", "--line", "x"), ("rules", "bogus"), ("--bogus",), (),
    ],
)  # fmt: skip
def test_wrong_usage(args: tuple[str, ...], log: Path) -> None:
    result = run(*(a.format(log=log) for a in args))
    assert result.code == 2
    assert result.err or not args


def test_unknown_names() -> None:
    assert run("rules", "show", "nosuch").code == 3
    assert run("rules", "test", "/nosuch/file").code == 3
    assert run("rules", "lint", "/nosuch/file").code == 3
    assert run("explain", "/nosuch/file").code == 3
    misspelt = run("frobnicate")
    assert misspelt.code == 3
    assert "no command" in sentence(misspelt)
    assert "--help" in misspelt.err


def test_a_command_alone_shows_what_there_is() -> None:
    assert run("rules").out == run("rules", "list").out
    assert run("config").out == run("config", "show").out


def test_an_empty_ledger_is_said_to_be_sound(tmp_path: Path) -> None:
    result = run("ledger", "verify", "--ledger", tmp_path)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("0 segments")


def without_slurm(tmp_path: Path) -> dict[str, str]:
    """An environment in which no command of Slurm is found, and nothing that a site may have set."""
    return environment(PATH=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path), SLURM_TRIAGE_ACCOUNTING="auto")


@pytest.mark.parametrize("args", [("7877",), ("watch", "7877"), ("7877,7878",)])
def test_without_slurm_it_is_accounting_that_is_missing(args: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*args, cwd=tmp_path, env=without_slurm(tmp_path))
    assert (result.code, result.out) == (4, "")
    assert "sacct cannot be used" in result.err
    assert len(result.err.splitlines()) == args[-1].count(",") + 1


def test_doctor_for_one_user_without_slurm(tmp_path: Path) -> None:
    """Nothing is broken where nothing was installed; a directory that was set but is not there is."""
    env = without_slurm(tmp_path)
    del env["SLURM_TRIAGE_ACCOUNTING"]
    config = tmp_path / "config.toml"
    config.write_text(f'spool = "{tmp_path}/spool"\nledger = "{tmp_path}/ledger"\n')
    broken = run("doctor", "--config", config, env=env)
    assert broken.code == 5
    assert re.search(r"^FAILED +spool ", broken.out, re.MULTILINE)
    assert re.search(r"^info +accounting +sacct cannot be used", broken.out, re.MULTILINE)
    assert re.search(r"^warning +accounting .*slurm-triage log works without", broken.out, re.MULTILINE)
    if not Path("/etc/slurm-triage/config.toml").exists() and not Path("/var/spool/slurm-triage").exists():
        alone = run("doctor", env=env)
        assert (alone.code, alone.err) == (0, "")
        assert "FAILED" not in alone.out


def test_exit_code_option(tmp_path: Path, log: Path) -> None:
    bad = tmp_path / "8-JAX-y.log"
    bad.write_text(BAD)
    assert run("log", log, "--exit-code").code == 0
    assert run("log", bad).code == 0
    assert run("log", bad, "--exit-code").code == 1
    assert run("log", log, bad, "--exit-code").code == 1


@pytest.mark.parametrize(
    "redirect, code, words",
    [("| head -1", 0, ""), ("> /dev/full", 5, "No space left"), (">&-", 0, ""), ("2>&-", 0, "")],
)
def test_broken_output(redirect: str, code: int, words: str, log: Path) -> None:
    shell = f"set -o pipefail; {sys.executable} -m slurm_triage log {log} --json {redirect}"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, timeout=30, check=False, env=environment()
    )
    assert done.returncode == code
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == bool(words)


BROKEN_PACKS = [
    "[[rule]]\nid = ",
    '[[rule]]\nid = "x"\n',
    '[[rule]]\nid = "x"\nclass = "no-such-class"\ntitle = "t"\npatterns = ["abcd"]\nsamples.match = ["abcd"]\nsamples.reject = ["x"]\n',
    '[[rule]]\nid = "x"\nclass = "oom-gpu"\ntitle = "t"\npatterns = ["(abcd"]\nsamples.match = ["abcd"]\nsamples.reject = ["x"]\n',
    '[[rule]]\nid = "x"\nclass = "oom-gpu"\ntitle = "t"\nfrobnicate = 1\npatterns = ["abcd"]\nsamples.match = ["abcd"]\nsamples.reject = ["x"]\n',
    '[disable]\nrules = ["no-such-rule"]\n',
]


def test_broken_overlay(tmp_path: Path, log: Path) -> None:
    """Stops every command with the file's name: wrong rules give wrong verdicts. As root only the site's own directory
    is read, so the packs are checked by lint there."""
    folder = tmp_path / "config" / "slurm-triage" / "rules.d"
    folder.mkdir(parents=True)
    files = [tmp_path / f"pack{number}.toml" for number in range(len(BROKEN_PACKS))]
    for file, text in zip(files, BROKEN_PACKS, strict=True):
        file.write_text(text)
    lint = run("rules", "lint", *files)
    assert lint.code in {1, 2}
    for file in files:
        assert file.name in lint.out + lint.err
    if os.geteuid() != 0:
        files[0].rename(folder / "mine.toml")
        result = run("log", log, env=environment(XDG_CONFIG_HOME=str(tmp_path / "config")))
        assert result.code == 2
        assert "mine.toml" in sentence(result)
