"""install.sh really builds pyslurm against a Slurm whose release the package index has, and uses it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster

SITE = Path("/srv/site")
PRETEND = Path("/srv/slurm-25.11")
EPILOG = "epilog.d/50-slurm-triage"

#: No suite of Debian has Slurm 25.11. What the root file system has is given out for it, with the switches that
#: build-pyslurm uses for that release.
PRETENDER = f"""set -e
rm -rf {PRETEND} {SITE}
mkdir -p {PRETEND}/bin {PRETEND}/include {PRETEND}/lib {SITE}
cp -r /usr/include/slurm {PRETEND}/include/
sed -i 's/^\\(#define SLURM_VERSION_NUMBER\\) .*/\\1 0x190b02/' {PRETEND}/include/slurm/slurm_version.h
ln -s "$(dirname /usr/lib/*/slurm-wlm/libslurmfull.so)" {PRETEND}/lib/slurm
printf '#!/bin/sh\\n[ "$1" = --version ] && {{ echo slurm 25.11.2; exit; }}\\nexec /usr/bin/sacct "$@"\\n' >{PRETEND}/bin/sacct
chmod 755 {PRETEND}/bin/sacct
"""
FLAGS = (
    "-O0 -g0 -w -DSLURM_BACKWARD_COMPAT -DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=ESLURM_INTERNAL "
    "-Dslurm_free_ctl_conf=slurm_free_conf"
)


@pytest.fixture
def pretender(root_cluster: Cluster) -> Iterator[Cluster]:
    if not root_cluster.version.startswith("26.05"):
        pytest.skip(f"the switches are for Slurm 26.05, this is {root_cluster.version}")
    root_cluster.run(["sh", "-c", PRETENDER])
    # Other tests of the lane may have put our epilog there; to install.sh it would be a stranger's.
    epilog = root_cluster.dir / "hooks" / EPILOG
    theirs = epilog.read_text() if epilog.exists() else None
    root_cluster.set_hooks({EPILOG: None})
    yield root_cluster
    root_cluster.set_hooks({EPILOG: theirs})
    root_cluster.run(["rm", "-rf", str(PRETEND), str(SITE)])


@pytest.mark.slow
def test_built_and_used(pretender: Cluster) -> None:
    cluster = pretender
    pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_INDEX") or key.endswith("_proxy")}
    env = {
        **pip,
        "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt",
        "PATH": f"{PRETEND}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "CFLAGS": FLAGS,
    }
    install = ["sh", f"{cluster.checkout}/install.sh", "--no-systemd", "--slurm-conf", str(cluster.layout.slurm_conf)]
    for option in ("prefix", "etc", "libexec", "bin", "spool", "var"):
        install += [f"--{option}", str(SITE / option)]
    output = cluster.run(install, env=env, timeout_s=900.0).stdout
    assert "accounting through pyslurm 25.11" in output
    again = cluster.run(install, env=env, timeout_s=900.0).stdout
    assert "accounting through pyslurm 25.11" in again
    assert "building pyslurm" not in again
    job_id = cluster.submit("alice", "exit 3", "-o", "/dev/null")
    cluster.wait(job_id)
    command = [str(SITE / "bin/slurm-triage")]
    settings = {"SLURM_TRIAGE_CONFIG": str(SITE / "etc/config.toml")}
    doctor = cluster.run([*command, "doctor"], env=settings, check=False, timeout_s=120.0).stdout
    assert "pyslurm is used" in doctor
    shown = cluster.run([*command, job_id, "--json"], env=settings, check=False, timeout_s=120.0).stdout
    assert re.search(r'"accounting":\s*{\s*"source":\s*"pyslurm"', shown), shown
    cluster.run([*install, "--uninstall", "--purge"], env=env)
    assert cluster.run(["ls", "-A", str(SITE)]).stdout == ""
