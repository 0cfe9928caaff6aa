"""The seed's table of known-harmless entries: alone in a healthy log they change nothing and are not in the report."""

from __future__ import annotations

import pytest

from slurm_triage.report.markdown import to_markdown
from tests.conftest import Triage
from tests.pitfalls.logs import header, steps, summary
from tests.seed import jobs

DOCKER_RM = 'Error response from daemon: cannot remove container "/maxtext-slurm-7-node0": could not kill container: tried to kill container, but did not receive an exit event'
OCI = "OCI runtime exec failed: exec failed: unable to start container process: error executing setns process: exit status 1: unknown"

#: (words that must not reach the report, the text)
ANYWHERE = [
    (
        "cuInit",
        "E0000 00:00:1796005405.977720 23593 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
    ),
    ("cuInit", "Failed call to cuInit: UNKNOWN ERROR (303)"),
    (
        "MSCCL++",
        "chi2801:11:12 [0] init.cc:2095 NCCL WARN MSCCL++: Feature not enabled. ENABLE_MSCCLPP must be defined at compile-time",
    ),
    (
        "Token indices",
        "Token indices sequence length is longer than the specified maximum sequence length for this model (4321 > 2048).",
    ),
    (
        "OCI runtime",
        f"{OCI}\n  [exec] docker exec failed for maxtext-slurm-6-node0; falling back to host-level kill\n  [cgroup] Sent SIGKILL to 0/0 processes",
    ),
    ("OCI runtime", OCI),
    ("CPU core", "W0601 22:14:54.1 77 topology.cc:77] Cannot read CPU core 128"),
    ("jellyfish", "I0601 22:14:54.1 77 hardware.cc:1] No hardware is found. Using default TPU version: jellyfish"),
    ("device identifiers", "W0601 22:14:54.1 77 trace.cc:9] No device identifiers found"),
    ("PjRt/TPU", "I0601 22:14:54.1 77 log.cc:9] Enabling PjRt/TPU event dependency logging"),
    (
        "Fiber init",
        "I0601 22:14:54.1 77 init-domain.cc:126] Fiber init: default domain = futex, concurrency = 254, prefix = futex-default",
    ),
    ("did not receive an exit event", DOCKER_RM),
    ("LL cutoff", "chi2801:11:12 [0] tuning.cc:1 NCCL WARN LL cutoff points not detected for a supported arch gfx950"),
]


@pytest.mark.parametrize("early", [True, False], ids=["before-step-0", "among-steps"])
@pytest.mark.parametrize("words, text", ANYWHERE, ids=[w + "-" + t[:20] for w, t in ANYWHERE])
def test_harmless_in_a_healthy_log(words: str, text: str, early: bool, triage_text: Triage) -> None:
    report = triage_text(jobs.healthy(text, early=early))
    assert report.diagnosis.status == "completed"
    assert report.diagnosis.primary is None
    assert [f.cls for f in report.diagnosis.findings] == []
    assert words not in to_markdown(report)


@pytest.mark.parametrize("words, text", ANYWHERE, ids=[w + "-" + t[:20] for w, t in ANYWHERE])
def test_harmless_hides_no_failure(words: str, text: str, triage_text: Triage) -> None:
    """Directly before the death of the same rank: the death is reported, the harmless text is not."""
    report = triage_text(
        jobs.training_failure(
            text + '\nTraceback (most recent call last):\n  File "t.py", line 1, in f\nValueError: bad batch'
        )
    )
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "python-exception"
    assert {f.cls for f in report.diagnosis.findings} <= {"python-exception", "stage-fail", "subprocess-fail"}
    assert words not in "".join(f.title for f in report.diagnosis.findings)


@pytest.mark.parametrize(
    "line", ["srun: Terminating StepId=7.3", "srun: launch/slurm: _step_signal: Terminating StepId=7.3"]
)
def test_cascade_after_scancel(line: str, triage_text: Triage) -> None:
    """`task N: Exited with exit code 143` and NODE_EXIT 143 on every node confirm a clean cancellation."""
    nodes = "".join(
        f"{r}: NODE_EXIT host=chi{2801 + r} exit=143\nsrun: error: chi{2801 + r}: task {r}: Exited with exit code 143\n"
        for r in (0, 1)
    )
    report = triage_text(jobs.cancelled(line + "\n", after=nodes + labelled_cleanup()))
    assert report.diagnosis.status == "cancelled"
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "cancelled"
    assert {f.cls for f in report.diagnosis.findings} == {"cancelled"}
    assert all(e.victim for e in report.diagnosis.exits)


def labelled_cleanup() -> str:
    return f"0: {OCI}\n0: {DOCKER_RM}\n"


def test_node_exit_143_everywhere_is_no_node_failure(triage_text: Triage) -> None:
    log = header() + jobs.BEFORE_TRAINING + jobs.LAUNCH + steps(range(5))
    log += "0: NODE_EXIT host=chi2801 exit=143\n1: NODE_EXIT host=chi2802 exit=143\n" + summary(
        143, "CANCELLED (scancel / SIGTERM)"
    )
    report = triage_text(log)
    assert report.diagnosis.primary is not None
    assert report.diagnosis.primary.cls == "cancelled"
    assert "node-fail" not in {f.cls for f in report.diagnosis.findings}
