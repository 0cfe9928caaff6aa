"""Records of log shippers, container runtimes and structured loggers read like the lines in them."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slurm_triage.bundle.scrub import Scrubber
from slurm_triage.logs.line import NO_LABELS
from slurm_triage.logs.records import unwrapped, unwrapper
from slurm_triage.logs.source import open_source
from slurm_triage.pipeline import Engine
from slurm_triage.report.build_document import report_document
from slurm_triage.service.follow import Follower
from tests.conftest import Triage
from tests.sources.streams import drain

START = datetime(2026, 5, 1, 12, 0, 0, tzinfo=timezone.utc)


def at(index: int) -> datetime:
    return START + timedelta(seconds=60 * index)


def iso(index: int) -> str:
    return at(index).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")


def docker(index: int, line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": iso(index)})


def cri(index: int, line: str) -> str:
    return f"{iso(index)} stderr F {line}"


def python_json_logger(index: int, line: str) -> str:
    return json.dumps({"asctime": f"{at(index):%Y-%m-%d %H:%M:%S},123", "levelname": "INFO", "message": line})


def structlog(index: int, line: str) -> str:
    return json.dumps({"event": line, "level": "info", "timestamp": iso(index)})


def logfmt(index: int, line: str) -> str:
    return f"ts={iso(index)} level=info msg={json.dumps(line)}"


def fluentd(index: int, line: str) -> str:
    return f"{iso(index)}\tkube.train\t" + json.dumps({"log": line, "stream": "stderr"})


def fluent_bit(index: int, line: str) -> str:
    kubernetes = {"host": "node013", "pod_name": "train-0"}
    return json.dumps({"date": at(index).timestamp(), "log": cri(index, line), "kubernetes": kubernetes})


def journald(index: int, line: str) -> str:
    microseconds = str(int(at(index).timestamp() * 1e6))
    return json.dumps({"MESSAGE": line, "_HOSTNAME": "node013", "_PID": "4", "__REALTIME_TIMESTAMP": microseconds})


def cloud_logging(index: int, line: str) -> str:
    return json.dumps({"textPayload": line, "severity": "ERROR", "timestamp": iso(index)})


def logger_in_docker(index: int, line: str) -> str:
    return docker(index, python_json_logger(index, line))


def clock(index: int, line: str) -> str:
    return f"{at(index):%Y-%m-%d %H:%M:%S} {line}"


def airflow(index: int, line: str) -> str:
    return f"[{at(index):%Y-%m-%d, %H:%M:%S} UTC] {{subprocess.py:93}} INFO - {line}"


def syslog(index: int, line: str) -> str:
    return f"{at(index):%b %e %H:%M:%S} node013 train[41]: {line}"


Wrap = Callable[[int, str], str]
RECORDS: list[Wrap] = [
    *(docker, cri, python_json_logger, structlog, logfmt, fluentd, fluent_bit, journald, cloud_logging),
    logger_in_docker,
]
ALL = [*RECORDS, clock, airflow, syslog]
WITH_HOST = [fluent_bit, journald, syslog]
#: What comes out, by how it begins in each of them.
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 3, in main',
    "    step()",
    "KeyError: 'x'",
]
LABELLED = [f"{rank}: completed step: {step}, seconds: 60.5, loss: 2.1" for step in range(12) for rank in (0, 1)]
LABELLED += [f"1: {line}" for line in TRACEBACK]


def text_of(wrap: Wrap, lines: Sequence[str]) -> str:
    return "".join(wrap(index, line) + "\n" for index, line in enumerate(lines))


@pytest.mark.parametrize("wrap", ALL)
def test_a_wrapped_log_gives_the_same_verdict(triage_text: Triage, wrap: Wrap) -> None:
    report = triage_text(text_of(wrap, LABELLED))
    primary = report.diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.rank) == ("python-exception", 1)
    assert {(ranks.rank, ranks.last) for ranks in report.progress.ranks} == {(0, 11), (1, 11)}


@pytest.mark.parametrize("wrap", ALL)
def test_the_clock_of_a_record_is_used(triage_text: Triage, wrap: Wrap) -> None:
    last = triage_text(text_of(wrap, TRACEBACK)).facts.last
    assert last.end_time is not None
    assert last.start_time is not None
    assert last.end_time - last.start_time == pytest.approx(60.0 * (len(TRACEBACK) - 1), abs=1)


@pytest.mark.parametrize("wrap", WITH_HOST)
def test_the_host_of_a_record_is_used(triage_text: Triage, wrap: Wrap) -> None:
    primary = triage_text(text_of(wrap, TRACEBACK)).diagnosis.primary
    assert primary is not None
    assert primary.node == "node013"


@pytest.mark.parametrize("key", ["exc_info", "exception", "stack_trace"])
def test_the_traceback_in_a_field_of_a_record_is_read(triage_text: Triage, key: str) -> None:
    record = {"timestamp": iso(0), "level": "error", "event": "step failed", key: "\n".join(TRACEBACK)}
    primary = triage_text(text_of(structlog, ["starting", "step 1"]) + json.dumps(record) + "\n").diagnosis.primary
    assert primary is not None
    assert primary.cls == "python-exception"
    assert "KeyError" in primary.title


def test_a_rank_in_a_record_is_the_rank_of_its_lines(triage_text: Triage) -> None:
    records = [{"time": iso(i), "level": "info", "rank": i % 4, "msg": f"working on {i}"} for i in range(8)]
    records.append({"time": iso(9), "level": "error", "rank": 3, "msg": "failed", "exc_info": "\n".join(TRACEBACK)})
    primary = triage_text("".join(json.dumps(record) + "\n" for record in records)).diagnosis.primary
    assert primary is not None
    assert (primary.cls, primary.rank) == ("python-exception", 3)


@pytest.mark.parametrize("piece_of", ["docker", "cri", "fluent_bit"])
def test_pieces_of_a_long_line_are_put_together(piece_of: str) -> None:
    long = "x" * 16384
    records = {
        "docker": [json.dumps({"log": t, "stream": "stdout", "time": iso(0)}) for t in (long, "end\n", "next\n")],
        "cri": [f"{iso(0)} stdout {flag} {t}" for flag, t in (("P", long), ("F", "end"), ("F", "next"))],
        "fluent_bit": [
            json.dumps({"time": iso(0), "stream": "stdout", "logtag": flag, "log": t})
            for flag, t in (("P", long), ("F", "end"), ("F", "next"))
        ],
    }[piece_of]
    data = ("\n".join(records) + "\n").encode()
    unwrap = unwrapper(data)
    assert unwrap is not None
    # Cut anywhere: what is read at a time has nothing to do with lines.
    pieces = [data[start : start + 1000] for start in range(0, len(data), 1000)]
    lines = b"".join(unwrapped(pieces, unwrap)).decode().splitlines()
    assert lines == [f"{iso(0)} {long}end", f"{iso(0)} next"]


def test_what_a_log_holds_besides_records_stays() -> None:
    plain = "JOB_ID=7\n" + text_of(structlog, ["a", "b"]) + '{"loss": 2.1, "step": 3}\nnot {"json": "\n'
    unwrap = unwrapper(plain.encode())
    assert unwrap is not None
    assert unwrap(plain.encode()).decode().splitlines() == [
        *("JOB_ID=7", f"{iso(0)} a", f"{iso(1)} b", '{"loss": 2.1, "step": 3}', 'not {"json": "'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "loss 2.1\n",
        '{"loss": 2.1, "step": 3, "time": 4.5}\n',
        '{"message": "a dict that was printed"}\n',
        "lr=1e-5 level=3 steps=5\n",
        "12:00:00 1: only one line of many looks like this\n" + "text\n" * 10,
        "",
    ],
)
def test_ordinary_logs_are_left_alone(text: str) -> None:
    assert unwrapper(text.encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        "ts=1 level=info " + "a" * 200_000 + ' msg="x"',
        "t=" * 50 + "b" * 200_000,
        '{"' + "}" * 200_000 + "x",
        '{"message": "' + "[" * 100_000 + '", "time": ' + "[" * 100_000,
        '{"message": "' + "\\n" * 60_000 + '", "time": "2026-05-01T12:00:00Z"}',
        '{"message": "' + "a\\n" * 60_000 + 'a", "time": "2026-05-01T12:00:00Z", "host": "' + "h" * 64 + '"}',
        '{"message": "' + "a\\n" * 30_000 + 'a", "time": 1e9, "host": "h", "pid": "' + "1" * 30_000 + '"}',
        '{"message": "' + "a\\n" * 30_000 + 'a", "time": "I0101 00:00:00' + " " * 30_000 + 'a:1]"}',
        '{"message": "a", "time": "[rank' + "1" * 5_000 + ']"}',
        "12:00:00 " * 20_000,
    ],
)
def test_hostile_lines_take_no_time_and_no_memory(line: str) -> None:
    """Each would take minutes, or gigabytes, where the work grows with the square of the length."""
    data = (text_of(docker, ["a", "b"]) + text_of(logfmt, ["a", "b"]) + line + "\n").encode()
    for sample in (data, text_of(logfmt, ["a", "b"]).encode() + line.encode(), line.encode()):
        unwrap = unwrapper(sample)
        start = time.process_time()
        made = b"".join(unwrapped([sample], unwrap)) if unwrap is not None else sample
        assert time.process_time() - start < 5
        assert len(made) < 20 << 20


def test_no_secret_leaves_in_a_record(triage_text: Triage) -> None:
    """Neither a key whose lines are records of their own, nor what is escaped over and over."""
    key = ["-----BEGIN RSA PRIVATE KEY-----", *(f"MIIEpA{n}BAAKCAQEA7bqXyZ01" * 3 for n in range(4))]
    nested: object = {"password": "hunter2secret"}
    for _ in range(3):
        nested = {"detail": json.dumps(nested)}
    messages = [*key, "-----END RSA PRIVATE KEY-----", f"RuntimeError: x {json.dumps(nested)}"]
    lines = [json.dumps({"time": iso(n), "level": "error", "msg": text}) for n, text in enumerate(messages)]
    log = "\n".join(lines).encode() + b"\n"
    unwrap = unwrapper(log)
    assert unwrap is not None
    shown = Scrubber(NO_LABELS).scrub(unwrap(log)).decode() + json.dumps(report_document(triage_text(log.decode())))
    assert "RuntimeError" in shown
    assert "hunter2" not in shown
    assert "MIIEpA" not in shown


def test_times_that_are_none_are_left_out() -> None:
    times: list[object] = [1e400, -1, "soon", True, None, [], "9" * 400]
    records = [{"message": "x", "time": time} for time in times]
    data = "".join(json.dumps(record).replace("Infinity", "1e400") + "\n" for record in records).encode()
    unwrap = unwrapper(data)
    assert unwrap is not None
    assert unwrap(data) in {b"x\n" * 7, b'{"message": "x", "time": 1e400}\n' + b"x\n" * 6}


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_every_source_delivers_the_lines(tmp_path: Path, packing: str) -> None:
    text = text_of(docker, LABELLED * 400).encode()
    path = tmp_path / "7.log"
    path.write_bytes(gzip.compress(text) if packing == "gzip" else text)
    with open_source(str(path)) as source:
        assert source.unwrapped
        lines = drain(source).decode().splitlines()
    assert len(lines) == len(LABELLED) * 400
    assert lines[-1] == f"1: {iso(len(LABELLED) * 400 - 1)} KeyError: 'x'"


def test_a_growing_log_of_records_is_followed(tmp_path: Path, engine: Engine) -> None:
    path = tmp_path / "7.log"
    follower = Follower(str(path), engine)
    with path.open("w") as file:
        file.write("loading modules\n")
        file.flush()
        follower.poll(999.0)
        for step in range(4):
            file.write(docker(step, f"0: completed step: {step}, seconds: 60.5, loss: 2.1") + "\n")
            file.write(docker(step, "0: evaluating") + "\n")
            file.flush()
            assert follower.poll(1000.0 + step)
            assert [(seen.rank, seen.step) for seen in follower.ranks.values()] == [(0, step)]


def test_a_reader_is_told_that_places_count_inside_the_records(triage_text: Triage) -> None:
    notes = triage_text(text_of(docker, TRACEBACK)).facts.notes
    assert any("records" in note for note in notes)
