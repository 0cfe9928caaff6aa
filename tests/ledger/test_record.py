"""From a report to a record and back through JSON."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.ledger.blame import node_evidence
from slurm_triage.ledger.record import (
    LedgerRecord,
    _argument_digests,
    attempt_key,
    from_dict,
    record_from_report,
    to_dict,
    to_json,
)
from slurm_triage.locate import locate
from slurm_triage.model.diagnosis import Diagnosis, Finding, Primary, Resubmit, Suspect
from slurm_triage.model.facts import AttemptFacts, ExitRecord, Header, LogFacts, Match, Place
from slurm_triage.model.files import JobFiles
from slurm_triage.model.job import NO_JOB, Job
from slurm_triage.model.progress import Cost, Progress, Throughput
from slurm_triage.model.report import Dashboards, Report
from slurm_triage.pipeline import Engine, triage
from tests.ledger.samples import T0, record

PLACE = Place(0, 0, "secret text of the log")
MATCH = Match("gpu-ecc", 3, "chi2803", 1, PLACE, PLACE, 1, 1)
PRIMARY = Primary(
    "gpu-hw-fault",
    "Uncorrectable ECC error on GPU 3 of rank 3",
    "Training",
    "node",
    3,
    (3,),
    "chi2803",
    316,
    "high",
    "x",
)


SUSPECTED = Suspect("chi2803", ("ECC",), "high", exclude=True)


def report(primary: Primary | None = PRIMARY, **changes: object) -> Report:
    diagnosis = Diagnosis(
        status="failed",
        primary=primary,
        findings=(Finding("gpu-hw-fault", "root", "gpu-ecc", PRIMARY.title, 3, "chi2803", match=MATCH),),
        suppressed=(), harmless=(), exits=(), suspects=(SUSPECTED,), resubmit=Resubmit("other-nodes", ""), ranks=(),
        narrative="secret narrative", next_steps=(), notes=(),
    )  # fmt: skip
    values: dict[str, object] = {
        "version": "1", "rules_digest": "abc", "generated_at": T0 + 0.25,
        "job": Job(job_id="7877", restarts=1, cluster="alpha", user="alice", name="J", start=T0, state="FAILED"),
        "launcher": "slurm", "ray": False, "attempt": 2, "nodes": ("chi2801", "chi2803"), "node_count": 2,
        "files": JobFiles(job_dir="/out/7877-x"),
        "facts": LogFacts(attempts=(AttemptFacts(0, header=Header(model_name="llama2-70b"), launch_args=("steps=5",),
                                                 env={"DOCKER_IMAGE": "img", "JAX_VERSION": "0.8", "TERM": "x"}),)),
        "diagnosis": diagnosis, "stages": (), "progress": Progress(last_step=316, step_time_s=3.0),
        "throughput": Throughput(early=3290.0, recent=3280.0, unit="tokens/s/device"),
        "cost": Cost(16, 20.0, 4.0), "dashboards": Dashboards(),
    }  # fmt: skip
    return Report(**{**values, **changes})  # type: ignore[arg-type]


def test_the_record_of_a_report() -> None:
    made = record_from_report(report(), "/out/7877-x/triage.json")
    assert made.key == f"alpha/7877/s{int(T0)}"
    assert made.revision == int(T0 * 1000) + 250
    assert (made.cls, made.rule, made.domain, made.confidence) == ("gpu-hw-fault", "gpu-ecc", "node", "high")
    assert (made.nodes, made.node_evidence) == ("chi[2801,2803]", (("chi2803", "reported"),))
    assert (made.model, made.image, dict(made.versions)) == ("llama2-70b", "img", {"JAX_VERSION": "0.8"})
    assert (made.throughput, made.throughput_unit) == (3280.0, "tokens/s/device")
    assert made.report_path == "/out/7877-x/triage.json"
    assert made.args_digest is not None


def test_no_text_of_the_log_is_kept() -> None:
    text = to_json(record_from_report(report()))
    assert b"secret" not in text
    assert b"Uncorrectable" not in text
    assert b"steps=5" not in text


def test_a_healthy_job_has_no_class_and_blames_nobody() -> None:
    healthy = report(None)
    healthy = replace(healthy, diagnosis=replace(healthy.diagnosis, status="completed", findings=()))
    made = record_from_report(healthy)
    assert (made.cls, made.fingerprint, made.node_evidence, made.domain) == (None, None, (), None)


def test_a_log_without_a_job_id_has_a_key_of_its_own() -> None:
    one = record_from_report(report(job=Job(), log_path="/a/x.log"))
    two = record_from_report(report(job=Job(), log_path="/a/y.log"))
    assert one.job_id.startswith("log:")
    assert one.key != two.key
    assert record_from_report(report(job=Job(), files=JobFiles(job_id="local_1_ab"))).job_id == "local_1_ab"


def test_the_start_tells_attempts_apart_whether_or_not_restarts_are_known() -> None:
    assert attempt_key(T0 + 0.4, None) == attempt_key(T0, 1) == f"s{int(T0)}"
    assert attempt_key(None, 2) == "r2"
    assert attempt_key(None, None) == "r0"


CRASH = ExitRecord(3, "chi2803", 139, 11, False, "node_exit", "", 1)
STOPPED = ExitRecord(3, "chi2803", 143, 15, True, "node_exit", "", 1)


@pytest.mark.parametrize(
    ("primary", "job", "exits", "suspects", "expected"),
    [
        (PRIMARY, Job(), (), (SUSPECTED,), (("chi2803", "reported"),)),
        (PRIMARY, Job(), (), (), ()),
        (PRIMARY, Job(), (), (replace(SUSPECTED, exclude=False),), ()),
        (PRIMARY, Job(), (), (replace(SUSPECTED, node="chi2801"),), ()),
        (replace(PRIMARY, domain="fabric"), Job(), (), (), ()),
        (None, Job(failed_node="chi2801"), (), (), (("chi2801", "failed-node"),)),
        (PRIMARY, Job(failed_node="chi2803"), (CRASH,), (SUSPECTED,), (("chi2803", "failed-node"),)),
        (replace(PRIMARY, domain="unknown"), Job(), (), (), (("chi2803", "died-first"),)),
        (replace(PRIMARY, domain="user"), Job(), (CRASH,), (), (("chi2803", "died-first"),)),
        (replace(PRIMARY, domain="user"), Job(), (STOPPED,), (), ()),
        (replace(PRIMARY, domain="user", rank=0), Job(), (CRASH,), (), ()),
        (replace(PRIMARY, domain="unknown", node=None), Job(), (CRASH,), (), ()),
    ],
)
def test_only_the_node_that_failed_is_evidence(
    primary: Primary | None,
    job: Job,
    exits: tuple[ExitRecord, ...],
    suspects: tuple[Suspect, ...],
    expected: tuple[tuple[str, str], ...],
) -> None:
    made = report(primary, job=job)
    diagnosis = replace(made.diagnosis, exits=exits, suspects=suspects)
    assert node_evidence(replace(made, diagnosis=diagnosis)) == expected


def test_unknown_is_left_out_and_zero_is_kept() -> None:
    values = to_dict(record(1, gpu_hours_lost=0.0, last_step=0, user=None, degraded=False))
    assert (values["gpu_hours_lost"], values["last_step"]) == (0.0, 0)
    assert not {"user", "degraded", "versions", "node_evidence"} & values.keys()


def test_a_name_that_is_no_unicode_is_still_recorded() -> None:
    text = to_json(record(1, name="caf\udce9", versions={"a\udce9": "b"}, nodes="n1"))
    assert orjson.loads(text)["name"] == "caf\ufffd"


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert from_dict({**to_dict(record(1)), "invented_later": [1]}) == record(1)


OPTIONAL_TEXT = st.none() | st.text(max_size=12)


@given(
    st.builds(
        LedgerRecord,
        job_id=st.text(min_size=1, max_size=8),
        attempt=st.just("s1"),
        revision=st.integers(0, 2**52),
        status=st.sampled_from(["failed", "completed"]),
        name=OPTIONAL_TEXT,
        cls=OPTIONAL_TEXT,
        restarts=st.none() | st.integers(0, 5),
        gpu_hours=st.none() | st.floats(0, 1e9),
        node_evidence=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3).map(tuple),
        versions=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
        degraded=st.booleans(),
    )
)
def test_round_trip(one: LedgerRecord) -> None:
    back = from_dict(orjson.loads(to_json(one)))
    # Empty and unknown texts are one thing to the ledger.
    assert back == replace(one, name=one.name or None, cls=one.cls or None)


@pytest.mark.parametrize(("code", "signal", "text"), [(1, None, "1:0"), (0, 9, "0:9"), (None, None, None)])
def test_the_exit_code_is_as_sacct_prints_it(code: int | None, signal: int | None, text: str | None) -> None:
    assert record_from_report(report(job=Job(job_id="1", exit_code=code, exit_signal=signal))).exit_code == text


LAUNCHER = Path(__file__).resolve().parents[1] / "corpus" / "launcher"


@pytest.mark.parametrize(
    ("case", "image", "versions"),
    [
        ("slurm-2N-success", "rocm/jax-training:maxtext-v26.2", {"Jax_Version": "0.8.2"}),
        ("slurm-ray-segv", "rocm/jax-training:maxtext-v26.2", {"Jax_Version": "0.8.2"}),
        ("slurm-quoting", "my/img:tag", {}),
    ],
)
def test_what_a_real_log_tells_of_image_versions_and_arguments(case: str, image: str, versions: dict[str, str]) -> None:
    """Without these, a comparison with the last good run would be silent about what changes most often."""
    made = record_from_report(triage(NO_JOB, locate(str(LAUNCHER / case / "log.txt")), Engine.load()))
    assert (made.image, dict(made.versions)) == (image, versions)
    assert "steps" in made.args


def test_arguments_are_told_apart_and_not_kept() -> None:
    arguments = _argument_digests(("steps=5", "--lr=1", "steps=7", "--flag", "hf_data_dir=/home/alice/secret"))
    assert set(arguments) == {"steps", "lr", "hf_data_dir"}
    assert arguments["steps"] == _argument_digests(("steps=7",))["steps"] != _argument_digests(("steps=5",))["steps"]
    assert "secret" not in "".join(arguments.values())
    assert len(_argument_digests(tuple(f"k{i}={i}" for i in range(500)))) == 64
