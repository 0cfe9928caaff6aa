"""The mirror as a command: it follows through outages, and its errors are sentences in which nobody sees a password."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.ledger.append import open_writer
from slurm_triage.ledger.mirror import read_password
from slurm_triage.ledger.segment import segments
from tests.ledger.databases import KEY, ROWS, Database, expected, write
from tests.ledger.samples import record
from tests.ledger.sql_servers import PASSWORD


def command(database: Database, root: Path, *args: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "slurm_triage",
        "ledger",
        "mirror",
        "--to",
        database.url,
        "--ledger",
        str(root),
        *args,
    ]


def environment(database: Database) -> dict[str, str]:
    return {**os.environ, "SLURM_TRIAGE_MIRROR_PASSWORD": database.password or ""}


@pytest.mark.parametrize("database", ["mariadb", "postgresql"], indirect=True)
def test_outages_while_the_writer_goes_on(database: Database, tmp_path: Path) -> None:
    """The server dies three times, the mirror twice; the writer notices nothing, and in the end all is there."""
    assert database.server is not None
    root = tmp_path / "l"
    stop = threading.Event()
    written: list[int] = []

    def work() -> None:
        with open_writer(root, "alpha", segment_bytes=100_000) as writer:
            number = 0
            while not stop.is_set():
                writer.append([record(number)])
                number += 1
                time.sleep(0.002)
            written.append(number)

    thread = threading.Thread(target=work)
    thread.start()
    errors = open(tmp_path / "errors", "wb")  # noqa: SIM115

    def follow() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(database, root, "--follow", "--interval", "0.05"),
            env=environment(database),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )

    while not root.exists():
        time.sleep(0.01)
    mirror = follow()
    try:
        for turn in range(3):
            time.sleep(1.5)
            database.server.stop(signal.SIGKILL)
            time.sleep(0.7)
            if turn < 2:
                mirror.send_signal(signal.SIGKILL)
                mirror.wait()
                mirror = follow()
            database.server.start()
        time.sleep(1.0)
        stop.set()
        thread.join()
        until = time.monotonic() + 60
        while len(database.rows("job_id", "attempt")) < written[0] and time.monotonic() < until:
            time.sleep(0.2)
        assert mirror.poll() is None, "the follower must outlive every outage"
    finally:
        stop.set()
        thread.join()
        mirror.kill()
        mirror.wait()
        errors.close()
    assert written[0] > 200
    assert database.rows(*KEY) == expected(root, *KEY)
    told = (tmp_path / "errors").read_text()
    assert "cannot mirror alpha into" in told
    assert "Traceback" not in told
    assert PASSWORD not in told


@pytest.mark.parametrize("database", ["mariadb", "postgresql"], indirect=True)
def test_errors_are_one_sentence_without_the_password(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "l"
    write(root, *ROWS)
    args = ["ledger", "mirror", "--ledger", str(root), "--to"]
    monkeypatch.setenv("SLURM_TRIAGE_MIRROR_PASSWORD", "wr0ng-pa55")
    assert main([*args, database.url]) == 5
    refused = capsys.readouterr()
    monkeypatch.setenv("SLURM_TRIAGE_MIRROR_PASSWORD", PASSWORD)
    assert main([*args, database.url.replace("/history", "/nowhere")]) == 5
    unknown = capsys.readouterr()
    assert main([*args, database.url.replace(f":{database.url.split(':')[-1]}", ":1/history")]) == 5
    away = capsys.readouterr()
    assert main([*args, database.url]) == 0
    done = capsys.readouterr()
    for text in (refused.err, unknown.err, away.err):
        assert text.startswith("slurm-triage: cannot mirror alpha into ")
        assert text.count("\n") == 1
    assert "wr0ng-pa55" not in refused.err
    assert done.out.startswith("alpha: 3 records copied to ")
    assert PASSWORD not in "".join((refused.err, unknown.err, away.err, done.out, done.err))


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nonsense", "is no database URL"),
        ("oracle://u@h/d", "cannot be oracle"),
        ("mysql+pymysql://u:geheim@h/d", "must hold no password"),
        ("postgresql+psycopg://u@h/d?password=geheim", "must hold no password"),
        ("mysql+nosuch://u@h/d", "pip install 'slurm-triage[mirror]'"),
    ],
)
def test_urls_that_cannot_be_used(
    url: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, *ROWS)
    monkeypatch.delenv("SLURM_TRIAGE_MIRROR_PASSWORD", raising=False)
    assert main(["ledger", "mirror", "--ledger", str(tmp_path), "--to", url]) in (2, 5)
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    assert "geheim" not in error


def test_settings_and_password_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "l"
    write(root, *ROWS)
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o644)
    config = tmp_path / "config.toml"
    config.write_text(f'mirror = "sqlite:///{tmp_path}/h.db"\nmirror_password_file = "{secret}"\n')
    monkeypatch.setenv("SLURM_TRIAGE_CONFIG", str(config))
    monkeypatch.delenv("SLURM_TRIAGE_MIRROR_PASSWORD", raising=False)
    assert main(["ledger", "mirror", "--ledger", str(root)]) == 5
    assert "others may use the password file" in capsys.readouterr().err
    secret.chmod(0o640)
    assert read_password(secret) == PASSWORD
    assert main(["ledger", "mirror", "--ledger", str(root)]) == 0
    assert main(["config", "show", "--origin"]) == 0
    assert PASSWORD not in capsys.readouterr().out
    config.write_text(f'mirror = "mysql+pymysql://u:{PASSWORD}@h/d"\n')
    assert main(["config", "show"]) == 2
    text = capsys.readouterr()
    assert "mirror must hold no password" in text.err
    assert PASSWORD not in text.err + text.out
    config.write_text("")
    assert main(["ledger", "mirror", "--ledger", str(root)]) == 2
    assert "no database is named" in capsys.readouterr().err


def test_damage_shows_in_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "l"
    path = segments(write(root, *ROWS))[0].path
    path.write_bytes(path.read_bytes().replace(b"alice", b"alicf", 1))
    assert main(["ledger", "mirror", "--ledger", str(root), "--to", f"sqlite:///{tmp_path}/h.db"]) == 5
    assert "run slurm-triage ledger verify" in capsys.readouterr().err
