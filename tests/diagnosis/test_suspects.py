"""Only the node that failed is to be left out, not the one that says so."""

from __future__ import annotations

from pathlib import Path

from slurm_triage.pipeline import Engine, triage_path
from slurm_triage.slurm.record_file import load_record

CASE = Path(__file__).resolve().parents[1] / "corpus" / "launcher" / "slurm-node-down"


def test_the_node_that_reports_a_lost_node_is_not_suspect(engine: Engine) -> None:
    """srun on chi2811 prints that chi2812 failed, and slurmstepd on chi2811 that the step ended because of it."""
    report = triage_path(str(CASE / "log.txt"), engine=engine, job=load_record(str(CASE / "accounting.json")))
    assert [s.node for s in report.diagnosis.suspects if s.exclude] == ["chi2812"]
    assert report.diagnosis.resubmit.exclude == ("chi2812",)
