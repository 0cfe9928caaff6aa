"""pytest fixtures. ``cluster`` runs a test on every lane; ``host_cluster`` and ``root_cluster`` on one.

A cluster is shared by the whole run: tests submit many jobs and wait for them together. With pytest-xdist, use
``--dist loadgroup``: all tests of lane "root" then go to one worker, and those of lane "host" to two, each of which has
a cluster of its own.

SLURM_TRIAGE_REQUIRE_LANES=host,root   these lanes must run: a test fails where it would be skipped
SLURM_TRIAGE_KEEP_CLUSTER=1            leave the cluster running for the next run
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.cluster import lanes
from tests.cluster.cluster import Cluster

_FIXTURE_LANES = {"host_cluster": "host", "root_cluster": "root"}

#: About half of the time that all modules of lane "host" take (``--durations=0``).
_SECOND_HALF = frozenset(("test_systemd_cluster", "test_ways_cluster", "test_endings_cluster", "test_install_cluster"))


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        lane = next((lane for fixture, lane in _FIXTURE_LANES.items() if fixture in names), None)
        if "cluster" in names and hasattr(item, "callspec"):
            lane = item.callspec.params.get("cluster", lane)
        if lane is not None:
            item.add_marker(pytest.mark.cluster)
            half = "2" if lane == "host" and item.path.stem in _SECOND_HALF else ""
            item.add_marker(pytest.mark.xdist_group(f"cluster-{lane}{half}"))


def _running(lane: str, session: pytest.Session) -> Iterator[Cluster]:
    if getattr(session.config.option, "loadgroup", False) and not any("@" in item.nodeid for item in session.items):
        # Spread over two workers, the second would wait for this cluster until the first has done all of its tests.
        pytest.fail("pytest-xdist forms no groups; see pyproject.toml for versions that do")
    with ExitStack() as held:
        try:
            cluster = _locked(lane, held)
        except lanes.LaneUnavailableError as error:
            if lane in os.environ.get("SLURM_TRIAGE_REQUIRE_LANES", "").split(","):
                pytest.fail(f"lane {lane} must run, but: {error}")
            pytest.skip(f"lane {lane}: {error}")
        if not cluster.running:
            # State that a killed run left behind is not worth trusting.
            cluster.wipe()
        cluster.up()
        try:
            yield cluster
        finally:
            if not os.environ.get("SLURM_TRIAGE_KEEP_CLUSTER"):
                cluster.wipe()


def _locked(lane: str, held: ExitStack) -> Cluster:
    """A cluster that nobody else uses; waits for one if need be. Raises LaneUnavailableError."""
    if lane == "host":
        for name in lanes.HOST_CLUSTERS:
            with suppress(BlockingIOError):
                cluster = lanes.make(name)
                held.enter_context(cluster.lock(wait=False))
                return cluster
    cluster = lanes.make(lane)
    held.enter_context(cluster.lock())
    return cluster


@pytest.fixture(scope="session")
def host_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from _running("host", request.session)


@pytest.fixture(scope="session")
def root_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from _running("root", request.session)


@pytest.fixture(scope="session", params=lanes.LANES)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have measured on a real Slurm."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    shown = sorted(
        value for report in reports for key, value in getattr(report, "user_properties", ()) if key == "hook"
    )
    if shown:
        terminalreporter.section("time of the hooks, as Slurm starts them")
        for line in dict.fromkeys(shown):
            terminalreporter.line(line)
