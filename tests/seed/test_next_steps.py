"""The seed's next-step templates: the actions of each class's row stand in the rendered next steps of such a job."""

from __future__ import annotations

import pytest

from slurm_triage.model.report import Report
from slurm_triage.report.markdown import to_markdown
from tests.conftest import Triage
from tests.pitfalls.logs import header, steps, summary
from tests.seed import jobs
from tests.seed.test_cascades import BEGIN, CANCEL, HEARTBEAT, end, heartbeat
from tests.seed.test_signatures import ROWS

#: class -> words of the seed's row, each of which must be in the steps (alternatives divided by |)
SEED: dict[str, tuple[str, ...]] = {
    "container-pull-fail": ("image name", "container_env.sh", "registry credentials", "docker pull"),
    "no-gpu": ("rocm-smi", "nvidia-smi", "device flags", "_container.sh"),
    "nccl-nic-fail": ("ip link show", "choose_nccl_socket_ifname.sh"),
    "model-not-found": ("ls configs/*.gpu.yml", "docs/model-configs.md"),
    "preflight-timeout": ("stuck GPU processes", "rocm-smi", 'STAGE_TIMEOUTS="preflight:1800"'),
    "pull-timeout": ("registry", "Pull the image beforehand|Pre-pull", 'STAGE_TIMEOUTS="pull:1800"'),
    "train-timeout": ('STAGE_TIMEOUTS="train:', "not a hang"),
    "oom-host": ("per_device_batch_size", "remat_policy=full", "checkpoint"),
    "oom-gpu": ("XLA_PYTHON_CLIENT_MEM_FRACTION", "per_device_batch_size", "max_target_length", "remat_policy=full", "buffer assignment"),
    "nccl-timeout": ("ip link", "ethtool", "RDMA counters", "_env_NCCL_DEBUG=INFO", "same nodes fail"),
    "xla-compile-fail": ("train_env.sh", "_env_ENABLE_XLA_DUMP=1", "isolate"),
    "python-exception": ("whole traceback|full traceback", "known issue", "parameters"),
    "signal-kill": ("core", "COREDUMP_EXTRA_DIRS", "gdb python3", "docs/debugging.md"),
    "cancelled": ("progress", "hang", "earlier errors", "no action is needed"),
    "node-fail": ("Which node", "output of", "137", "134 or 139"),
    "checkpoint-fs-error": ("other workers", "intact", "periodic checkpoint|restore from step", "VAST"),
}  # fmt: skip


def steps_text(report: Report) -> str:
    text = "\n".join(report.diagnosis.next_steps)
    markdown = to_markdown(report)
    assert "### Recommended next steps" in markdown
    assert markdown.count("\n1. ") >= 1
    return text


def check(report: Report, words: tuple[str, ...]) -> None:
    text = steps_text(report)
    for alternatives in words:
        assert any(word in text for word in alternatives.split("|")), (alternatives, text)
    assert "{{" not in text
    assert "None" not in text


CASES = [(row, SEED[row.primary]) for row in ROWS if row.primary in SEED]


def test_every_class_of_the_table_is_tried() -> None:
    assert {row.primary for row, _ in CASES} == set(SEED)


@pytest.mark.parametrize("row, words", CASES, ids=lambda value: getattr(value, "cls", None))
def test_actions(row: object, words: tuple[str, ...], triage_text: Triage) -> None:
    check(triage_text(row.log), words)  # type: ignore[attr-defined]


def test_signal_kill_speaks_of_dmabuf(triage_text: Triage) -> None:
    env = "1: Show all environment variables:\n1: NCCL_DMABUF_ENABLE=1\n"
    crash = "[Node 1 @ chi2802] Training subprocess killed by SIGSEGV (signal 11)"
    log = (
        header(ray=True)
        + jobs.BEFORE_TRAINING
        + jobs.CONTAINER
        + env
        + jobs.CONFIG
        + steps(range(5))
        + jobs.labelled(crash, 1)
    )
    log += "1: NODE_EXIT host=chi2802 exit=245\n== Training FAILED (exit=245, 9s) ==\n" + summary(
        1, "Training FAILED (exit=245)"
    )
    check(triage_text(log), ("NCCL_DMABUF_ENABLE=1", "Forcing NCCL_DMABUF_ENABLE=0", "/boot/*$(uname -r)*"))


def test_hang(triage_text: Triage) -> None:
    log = header() + BEGIN + steps(range(8)) + CANCEL + summary(143, "CANCELLED (scancel / SIGTERM)", wall="2h 10m 0s")
    check(
        triage_text(log),
        (
            "same nodes first",
            "if it hangs again",
            "exclude the suspects",
            "_env_NCCL_DEBUG=INFO",
            "slurm_job_monitor.sh",
        ),
    )


def test_live_hang_of_a_ray_job(triage_text: Triage) -> None:
    log = header(ray=True) + BEGIN + steps(range(8))
    start = 1_790_000_000
    accounting = {"job_id": "7", "state": "RUNNING", "start": start}
    report = triage_text(log, accounting=accounting, now=start + 4 * 3600)
    assert report.diagnosis.status == "hanging"
    check(
        report, ("8265", "stack traces", "power", "TCP retransmits", "RDMA counters", "scancel 7", "same nodes first")
    )


def test_heartbeat(triage_text: Triage) -> None:
    report = triage_text(header() + BEGIN + steps(range(8)) + heartbeat(0, 1) + end())
    check(
        report,
        (
            "false alarm",
            "jax-heartbeat-false-positive-postmortem.md",
            "jax_distributed_heartbeat_timeout_seconds=",
            "several hours|far above start-up",
            "slurm_job_monitor.sh",
            "own death",
        ),
    )
    assert "{r}" in HEARTBEAT


def test_unknown_death(triage_text: Triage) -> None:
    check(triage_text(header() + BEGIN + steps(range(8))), ("dmesg", "scontrol show job 7", "RAY=1"))


def test_tgs_degradation(triage_text: Triage) -> None:
    log = (
        header(args="steps=60")
        + BEGIN.replace("steps: 15", "steps: 60")
        + steps(range(30))
        + steps(range(30, 60), seconds=4.0)
    )
    report = triage_text(log + "== Training END (50s) ==\n" + summary(0, wall="5m 0s"))
    assert report.diagnosis.status == "completed"
    assert "tgs-degradation" in {f.cls for f in report.diagnosis.findings}
    check(report, ("RDMA", "pattern", "offending nodes", "retry exhaustion"))
    markdown = to_markdown(report)
    assert "### TGS analysis" in markdown
    assert "10922.7 → recent 8192" in markdown
    assert "-25.0 %" in markdown
    assert "step 30 to step 59" in markdown
    assert report.diagnosis.resubmit.action == "none", "it completed"


def test_ray_start_fail(triage_text: Triage) -> None:
    """Only a remark of a run that goes on: the template is shown where it is the verdict."""
    log = header(ray=True) + jobs.BEFORE_TRAINING + jobs.CONTAINER + "0: RuntimeError: Failed to connect to GCS.\n"
    log += "0: NODE_EXIT host=chi2801 exit=1\n== Training FAILED (exit=1, 9s) ==\n" + summary(
        1, "Training FAILED (exit=1)"
    )
    report = triage_text(log)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "ray-start-fail"
    check(report, ("goes on without Ray", "port conflicts", "Ray logs"))
