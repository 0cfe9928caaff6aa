"""What goes into a bundle, and what does not: secrets, names, bytes beyond the limit, traces of who made it and when."""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.bundle.archive import write_archive
from slurm_triage.bundle.names import private_names
from slurm_triage.bundle.ranges import Spot, choose_ranges, read_parts
from slurm_triage.bundle.record import job_record
from slurm_triage.bundle.scrub import Scrubber
from slurm_triage.errors import UsageError
from slurm_triage.logs import windows as windows_module
from slurm_triage.logs.line import NO_LABELS, LabelFormat
from slurm_triage.model.facts import NO_FACTS
from slurm_triage.model.files import LogFile
from slurm_triage.model.job import Job
from slurm_triage.report.redact import REDACTED, redact_text
from slurm_triage.slurm.record_file import job_from_record

from .conftest import Pack, corpus_cases

HF = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"

# -- secrets ------------------------------------------------------------------------------------------------------

_ALNUM = st.characters(min_codepoint=48, max_codepoint=122, categories=("Lu", "Ll", "Nd"))


def _of(prefix: str, size: int) -> st.SearchStrategy[str]:
    return st.text(_ALNUM, min_size=size, max_size=size).map(lambda rest: prefix + rest)


SECRETS = st.one_of(
    _of("hf_", 34),
    _of("ghp_", 36),
    _of("sk-", 40),
    _of("glpat-", 20),
    _of("npm_", 36),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=16, max_size=16).map(lambda rest: "AKIA" + rest),
)
#: How a secret may stand in a line. {s}: the secret.
SHAPES = st.sampled_from(
    [
        "{s}",
        "token: {s}",
        "export HF_TOKEN={s}",
        "+ huggingface-cli login --token {s}",
        "https://user:{s}@example.org/x.git",
        "Authorization: Bearer {s}",
        "\x1b[31m{s}\x1b[0m",
        "\x1b[1mkey\x1b[0m={s}",
        "{{'token': '{s}', 'n': 1}}",
        "ValueError: bad token {s}!",
        "50%|#####     | {s}\r100%|##########| done",
    ]
)
LABELS = st.sampled_from([NO_LABELS, LabelFormat(width=1, ntasks=4), LabelFormat(width=2, ntasks=12)])


@given(SECRETS, SHAPES, LABELS, st.integers(0, 3), st.integers(0, 2200))
@settings(deadline=None, max_examples=300)
def test_no_secret_survives_wherever_it_stands(
    secret: str, shape: str, labels: LabelFormat, rank: int, before: int
) -> None:
    """Labelled or not, coloured or not, and where ``srun -l`` cut the line inside the secret."""
    label = "" if labels.width is None else f"{rank:>{labels.width}}: "
    line = ("x " * before)[:before] + " " + shape.format(s=secret)
    pieces = [line[at : at + 1024] for at in range(0, len(line), 1024)] if label else [line]
    other = f"{(rank + 1) % 4:>{labels.width}}: other rank" if label else "another line"
    text = f"\n{other}\n".join(label + piece for piece in pieces) + "\n"
    clean = Scrubber(labels).scrub(text.encode()).decode()
    assert secret not in re.sub(r"\x1b\[\d*m|\n|\d+: (?:other rank)?", "", clean)
    assert clean.count(other) == text.count(other)
    if not label:
        # (A cut piece may end within "[redacted]".)
        bare = re.sub(r"\x1b\[\d*m", "", clean)
        assert redact_text(bare) == bare


KEY = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "Proc-Type: 4,ENCRYPTED",
    "",
    *["MIIEpAIBAAKCAQEA" * 4] * 6,
    "c2hvcnQ=",
    "-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("label", ["", "0: "])
def test_a_private_key_goes_as_a_whole_and_nothing_else(label: str) -> None:
    labels = LabelFormat(width=1, ntasks=2) if label else NO_LABELS
    lines = []
    for part in KEY:
        lines += [
            label + part,
            "1: a line of another rank" if label else "W0101 12:00:00.000000 1 x.cc:1] a line between",
        ]
    lines.append(label + "done")
    clean = Scrubber(labels).scrub(("\n".join(lines) + "\n").encode()).decode()
    assert "MIIE" not in clean
    assert "c2hv" not in clean
    assert clean.count("a line") == len(KEY)
    assert clean.endswith(f"{label}done\n")


def test_a_key_without_an_end_does_not_swallow_the_log() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + "step 1 is done\n" * 40 + "Killed\n"
    assert Scrubber(NO_LABELS).scrub(text.encode()).decode().endswith("step 1 is done\nKilled\n")


def test_a_secret_on_the_edge_of_a_window_is_seen_with_its_beginning() -> None:
    labels = LabelFormat(width=1, ntasks=2)
    line = "y" * 1010 + " token=" + HF
    context, data = f"0: {line[:1024]}\n1: z\n", f"0: {line[1024:]}\n0: next\n"
    clean = Scrubber(labels).scrub(data.encode(), context.encode()).decode()
    assert clean == "0: next\n"


@given(st.binary(max_size=300), LABELS)
@settings(deadline=None)
def test_text_without_secrets_stays_as_it_is(data: bytes, labels: LabelFormat) -> None:
    clean = Scrubber(labels).scrub(data)
    if REDACTED.encode() not in clean:
        assert clean == data


def test_a_bundle_without_secrets_anywhere(pack: Pack, tmp_path: Path) -> None:
    record = tmp_path / "accounting.json"
    record.write_text(
        json.dumps(
            {
                "job_id": 7,
                "state": "FAILED",
                "exit_code": "1:0",
                "submit_line": f"sbatch --export=HF_TOKEN={HF} x",
                "comment": f"token={HF}",
            }
        )
    )
    job = tmp_path / "7-JAX-x"
    (job / "artifact").mkdir(parents=True)
    (job / "artifact" / "submit_cmd.txt").write_text(f"HF_TOKEN={HF} ./submit.sh x\n")
    (job / "log").write_text(f"HF_TOKEN={HF}\nRuntimeError: 401 for token {HF}\nboss@example.org\n")
    texts = pack(job, record).texts()
    assert {"log", "accounting.json", "expect.json", "README", "artifact/submit_cmd.txt"} <= set(texts)
    for text in texts.values():
        assert HF not in text
        assert "boss@" not in text


# -- names --------------------------------------------------------------------------------------------------------


def test_names_are_the_same_in_log_and_accounting(pack: Pack, tmp_path: Path) -> None:
    record = tmp_path / "accounting.json"
    record.write_text(
        json.dumps(
            {
                "job_id": 7,
                "state": "NODE_FAIL",
                "user": "alice",
                "uid": 1234,
                "account": "atlas",
                "cluster": "prod",
                "nodes": "chi[2801-2802]",
                "failed_node": "chi2802",
                "work_dir": "/home/alice/run",
                "steps": [{"step_id": "0", "nodes": ["chi2802"]}],
            }
        )
    )
    log = tmp_path / "slurm-7.out"
    log.write_text(
        "USER=bob\nchdir /home/alice/run\nNODELIST=chi[2801-2802]\nchi2802:17:99 [0] NCCL INFO x\nlogin09:1:2 [3] NCCL INFO x\n"
        "srun: error: Node failure on chi2802\nssh root@10.7.7.7\nbob and alice\npeer ::ffff:10.9.9.9\n"
    )
    texts = pack(log, record, share=True).texts()
    everything = "\n".join(texts.values())
    for private in ("alice", "bob", "chi28", "login09", "10.7.7.7", "10.9.9.9", "/home", "atlas", "1234"):
        assert private not in everything
    accounting = json.loads(texts["accounting.json"])
    lines = texts["log"].splitlines()
    assert accounting["nodes"] == ["node-1", "node-2"]
    assert accounting["failed_node"] == accounting["steps"][0]["nodes"][0] == "node-2"
    assert lines[1] == f"chdir {accounting['work_dir']}"
    assert lines[2] == "NODELIST=node-[1-2]"
    assert lines[5] == "srun: error: Node failure on node-2"
    assert lines[7] == f"{lines[0].partition('=')[2]} and {accounting['user']}"


def test_names_that_say_what_happened_stay() -> None:
    names = private_names(Job(user="alice"), NO_FACTS, {"job": {"user": "alice"}}, [])
    assert (
        names.text("RPC: /xla.coordination.CoordinationService/Heartbeat")
        == "RPC: /xla.coordination.CoordinationService/Heartbeat"
    )
    assert re.fullmatch(
        r"exists: 'path-\d/30000\.orbax-checkpoint-tmp-0'",
        names.text("exists: '/home/alice/c/30000.orbax-checkpoint-tmp-0'"),
    )
    assert names.text("file </torch_2319_18_0>: full") == "file </torch_2319_18_0>: full"
    assert names.text("/home/alice/secret-project/7.orbax-checkpoint-tmp/x").startswith("path-")


# -- sizes --------------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 400),
    st.integers(200, 20_000),
    st.lists(st.tuples(st.integers(0, 30_000), st.booleans()), max_size=30),
    st.integers(20, 300),
)
@settings(deadline=None, max_examples=60)
def test_parts_are_whole_lines_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: int, allowance: int, places: list[tuple[int, bool]], window: int
) -> None:
    """Also where the file is read in tiny windows."""
    path = tmp_path_factory.mktemp("parts") / "log"
    data = b"".join(b"%d %s\n" % (n, b"x" * (n * 7 % 90)) for n in range(lines))
    path.write_bytes(data)
    spots = [Spot(offset % len(data), line_only) for offset, line_only in places]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "slurm_triage.bundle.ranges.windows",
            lambda source: windows_module.windows(source, 40 * window, 10 * window),
        )
        parts = list(read_parts(LogFile(str(path), "primary"), choose_ranges(len(data), allowance, spots)))
    position = 0
    for part in parts:
        assert part.start >= position
        assert data[part.start : part.start + len(part.data)] == part.data
        assert data[: part.start].endswith(part.context)
        assert part.start == 0 or data[part.start - 1 : part.start] == b"\n"
        assert part.data.endswith(b"\n")
        position = part.start + len(part.data)
    kept = set()
    for part in parts:
        kept |= set(range(part.start, part.start + len(part.data)))
    assert {0, len(data) - 1} <= kept
    if len(data) <= allowance:
        assert len(kept) == len(data)
    else:
        assert len(kept) <= allowance + 128 * (len(spots) + 2)


def test_what_is_kept_of_a_large_log(pack_text: Pack) -> None:
    filler = "nothing to see here, number {}\n"
    middle = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: the cause\n'
    text = (
        "".join(map(filler.format, range(30_000))) + middle + "".join(map(filler.format, range(30_000))) + "last line\n"
    )
    made = pack_text(text, max_bytes=100_000)
    log = (made.tree / "log").read_text()
    assert "ValueError: the cause" in log
    assert log.startswith("nothing to see here, number 0\n")
    assert log.endswith("last line\n")
    assert len(log) < 101_000
    assert made.made.same
    expect = json.loads((made.tree / "expect.json").read_text())
    assert expect["left_out_bytes"] == made.made.left_out_bytes > 1_500_000
    assert (expect["class"], expect["replayed"]) == ("python-exception", "same")


# -- accounting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [c / "accounting.json" for c in corpus_cases() if (c / "accounting.json").exists()][::5],
    ids=lambda p: p.parent.name,
)
def test_a_record_read_back_is_the_same(record: Path) -> None:
    job = job_from_record(json.loads(record.read_text()))
    assert job_from_record(json.loads(json.dumps(job_record(job)))) == job


def test_a_record_with_everything_in_it() -> None:
    one = job_from_record(
        {
            "job_id": 7,
            "state": "FAILED",
            "exit_code": "1:9",
            "derived_exit_code": "0:125",
            "start": 100.5,
            "end": 200,
            "nodes": "n[1-3]",
            "time_limit": "1:00:00",
            "steps": [{"step_id": "batch", "exit_code": "0:0", "max_rss_bytes": 5}],
        }
    )
    both = replace(one, earlier=(replace(one, restarts=0),))
    assert job_from_record(job_record(both)) == both


# -- archive ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [False, True])
def test_the_same_bytes_every_time(pack: Pack, tmp_path: Path, share: bool) -> None:
    log = tmp_path / "7-JAX-x.log"
    log.write_text("USER=alice\nchi2801:1:2 [0] NCCL INFO x\nTraceback (most recent call last):\nValueError: no\n")
    first, second = pack(log, share=share), pack(log, share=share)
    assert first.made.path.read_bytes() == second.made.path.read_bytes()


def test_archives_of_one_tree_are_equal_and_anonymous(tmp_path: Path) -> None:
    tree = tmp_path / "b"
    (tree / "sub").mkdir(parents=True)
    for name in ("z", "a", "sub/k"):
        (tree / name).write_text(name)
        os.utime(tree / name, (1_700_000_000, 1_700_000_000))
    os.utime(tree / "sub", (9, 9))
    os.utime(tree, (9, 9))
    write_archive(tree, tmp_path / "one.tar.gz")
    (tree / "z").chmod(0o600)
    write_archive(tree, tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        assert archive.getnames() == ["b", "b/a", "b/sub", "b/sub/k", "b/z"]
        assert {(m.uid, m.gid, m.uname, m.gname) for m in archive} == {(0, 0, "", "")}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "one.tar.gz", "two.tar.gz"]


def test_zstandard(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    tree = tmp_path / "b"
    tree.mkdir()
    (tree / "a").write_text("x")
    write_archive(tree, tmp_path / "x.tar.zst")
    write_archive(tree, tmp_path / "x.tar.gz")
    unpacked = zstandard.ZstdDecompressor().decompress((tmp_path / "x.tar.zst").read_bytes())
    assert unpacked == gzip.decompress((tmp_path / "x.tar.gz").read_bytes())
    with pytest.raises(UsageError, match=r"choose a name ending in"):
        write_archive(tree, tmp_path / "x.zip")
