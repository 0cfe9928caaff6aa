"""The scenarios, played once per lane and run."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.slurm.played import Played, play


@pytest.fixture(scope="session")
def played(cluster: Cluster) -> Played:
    return play(cluster)
