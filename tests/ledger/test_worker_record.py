"""What the worker records of a real launcher's log, behind everything that stands between its child and the ledger."""

from __future__ import annotations

import time
from pathlib import Path

from tests.service.conftest import ended_job
from tests.service.conftest import rehearsed as rehearsed
from tests.service.conftest import site as site
from tests.service.fake_site import FakeSite

LOG = Path(__file__).resolve().parents[1] / "corpus" / "launcher" / "slurm-ray-segv" / "log.txt"


def test_image_and_versions_reach_the_ledger(site: FakeSite) -> None:
    """They are what a comparison with the last good run is about."""
    end = float(int(time.time()) - 60)
    site.add(ended_job(site, "901", start=end - 60, end=end, elapsed_s=60.0), LOG.read_bytes())
    site.work()
    (record,) = site.records("901")
    assert record.image == "rocm/jax-training:maxtext-v26.2"
    assert dict(record.versions) == {"Jax_Version": "0.8.2"}
