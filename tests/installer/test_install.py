"""install.sh, really run as root with every place below a directory of its own: what it leaves, what it takes away, and
that nothing is half done. On a real cluster: test_install_cluster.py."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from slurm_triage.service.spool_event import parse
from tests.installer.place import CHECKOUT, Place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="installing needs root")

CONFIGURATION = {"etc", "etc/config.toml", "etc/hook.conf", "etc/installed-files"}
DATA = {"spool", "spool/new", "spool/tmp", "spool/bad", "var", "var/ledger", "var/state"}


def added(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """Paths that are new; nothing else may have changed."""
    assert {path: after.get(path) for path in before} == before
    return set(after) - set(before)


# ---- in and out -----------------------------------------------------------------------------------------------------


def test_in_and_out_again(place: Place) -> None:
    before = place.snapshot()
    output = place.run().stdout
    installed = place.snapshot()
    assert added(before, installed) >= {
        *CONFIGURATION,
        *DATA,
        "bin/slurm-triage",
        "libexec/record-event",
        "slurm/epilog.d/50-slurm-triage",
    }
    assert installed["libexec/jobcomp"][0] == installed["slurm/epilog.d/50-slurm-triage"][0] == "-rwxr-xr-x"
    assert "JobCompLoc=" in output
    assert "then: restart slurmctld" in output
    # It works from there.
    with open(place.path("etc/hook.conf"), "a") as conf:
        conf.write(f"snapshot=off\nqueue={place.path('queue')}\n")
    subprocess.run([place.epilog_d / "50-slurm-triage"], env={"SLURM_JOBID": "7"}, check=True)
    subprocess.run([place.path("libexec/jobcomp")], env={"JOBID": "8", "JOBSTATE": "FAILED"}, check=True)
    (event,) = [parse(path.read_bytes(), path.stat().st_mtime) for path in place.path("spool/new").iterdir()]
    assert (event.kind, event.job_id) == ("jobcomp", "8")
    shown = subprocess.run(
        [place.path("bin/slurm-triage"), "--version"], env=place.env, capture_output=True, check=True
    )
    assert b"slurm-triage" in shown.stdout
    # And goes.
    output = place.run("--uninstall").stdout
    left = added(before, place.snapshot())
    assert left == {*CONFIGURATION, *DATA, f"spool/new/{next(place.path('spool/new').iterdir()).name}"}
    assert "uninstalled." in output
    assert "nothing is installed" in place.run("--uninstall").stdout
    place.run()
    place.run("--uninstall", "--purge")
    assert added(before, place.snapshot()) == set()


def test_twice_is_harmless(place: Place) -> None:
    place.run("--edit-slurm-conf", "--open-spool")
    with open(place.path("etc/hook.conf"), "a") as conf:
        conf.write("mailer=/usr/bin/mail\n")
    before = place.snapshot()
    output = place.run("--edit-slurm-conf").stdout
    assert place.snapshot() == before
    assert "slurm.conf is as before: Slurm needs nothing." in output
    assert "\nfile " not in output
    assert place.run().returncode == 0
    assert place.snapshot() == before


def test_slurm_conf_is_edited_in_one_place_and_restored(place: Place) -> None:
    """Also behind a link, with its mode and owner."""
    real = place.slurm / "shared.conf"
    place.conf.rename(real)
    real.chmod(0o640)
    os.chown(real, 0, 12345)
    place.conf.symlink_to("shared.conf")
    before = place.snapshot()
    place.run("--edit-slurm-conf")
    text = real.read_text()
    assert f"\nJobCompLoc={place.path('libexec/jobcomp')}\n" in text
    assert place.snapshot()["slurm/shared.conf"][:3] == before["slurm/shared.conf"][:3]
    # The site goes on editing.
    real.write_text(f"# first\n{text}PartitionName=x\n")
    assert "Slurm needs nothing" in place.run("--edit-slurm-conf").stdout
    output = place.run("--uninstall", "--purge").stdout
    assert real.read_text() == "# first\n" + text[: text.index("# >>> slurm-triage")] + "PartitionName=x\n"
    assert place.conf.is_symlink()
    assert "kept" in output
    assert (place.slurm / "shared.conf.before-slurm-triage").exists()


def test_lines_put_in_by_hand_are_recognised(place: Place) -> None:
    """slurmctld may not start when a hook that they name is not there."""
    lines = [line.strip() for line in place.run().stdout.splitlines() if line.startswith("      ")]
    with open(place.conf, "a") as conf:
        conf.write("\n".join(line.replace("=", " = ") for line in lines) + "\n")
    assert "slurm.conf is as before" in place.run("--edit-slurm-conf").stdout
    before = place.snapshot()
    result = place.run("--uninstall", check=False)
    assert result.returncode == 1
    assert "remove these lines, restart slurmctld" in result.stderr
    assert place.snapshot() == before
    place.conf.write_text(f"ClusterName=test\nSlurmUser=nobody\nEpilog={place.epilog_d}/*\n")
    place.run("--uninstall")


def test_an_epilog_directory_is_never_left_empty(place: Place) -> None:
    """Slurm drains every node whose Epilog=DIR/* matches no file."""
    (place.epilog_d / "10-site").unlink()
    place.conf.write_text("ClusterName=test\nSlurmUser=nobody\n")
    output = place.run("--edit-slurm-conf").stdout
    assert "Not before: Slurm drains" in output
    assert "\nEpilog=" not in place.conf.read_text()
    output = place.run("--edit-slurm-conf", "--epilog").stdout
    assert f"\nEpilog={place.epilog_d}/*\n" in place.conf.read_text()
    place.run("--edit-slurm-conf")
    assert f"\nEpilog={place.epilog_d}/*\n" in place.conf.read_text(), "what was asked for once stays"
    hook = place.epilog_d / "50-slurm-triage"
    place.command("scontrol", f'echo "Epilog = {place.epilog_d}/*"')
    output = place.run("--uninstall").stdout
    assert "Epilog=" not in place.conf.read_text()
    assert "run install.sh --uninstall again" in output
    assert list(place.epilog_d.iterdir()) == [hook]
    assert not place.path("libexec").exists()
    subprocess.run([hook], check=True)
    place.command("scontrol", "exit 1")
    place.run("--uninstall")
    assert hook.exists(), "nobody knows what slurmctld thinks"
    place.command("scontrol", 'echo "Epilog = (null)"')
    place.run("--uninstall")
    assert not hook.exists()
    assert "file " not in place.path("etc/installed-files").read_text()


def test_what_cannot_be_removed_is_told(place: Place) -> None:
    place.run()
    place.command("rm", f'for word; do [ "$word" != {place.path("libexec/mail")} ] || exit 1; done; exec /bin/rm "$@"')
    result = place.run("--uninstall", check=False)
    assert result.returncode == 1
    assert f"could not be removed: {place.path('libexec/mail')}" in result.stderr
    (place.fake / "rm").unlink()
    place.run("--uninstall")
    assert not place.path("libexec").exists()


# ---- the site's own things ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slurm/epilog.d/50-slurm-triage", "bin/slurm-triage", "libexec/jobcomp"])
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "directory"])
def test_nothing_of_the_site_is_replaced(place: Place, name: str, kind: str) -> None:
    path = place.path(name)
    path.parent.mkdir(exist_ok=True)
    if kind == "file":
        place.script(path, "#!/bin/sh\necho mine\n")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("10-site" if kind == "link" else "/no/such/file")
    before = place.snapshot()
    for options in ((), ("--dry-run",)):
        result = place.run(*options, check=False)
        assert result.returncode == 1
        assert f"{path} is there and is not ours" in result.stderr
        assert place.snapshot() == before


def test_directories_of_the_site_keep_mode_and_owner(place: Place) -> None:
    for name in ("bin", "etc", "var", "spool"):
        place.path(name).mkdir()
        place.path(name).chmod(0o2775)
        os.chown(place.path(name), 12345, 12345)
    place.epilog_d.chmod(0o750)
    before = place.snapshot()
    place.run()
    added(before, place.snapshot())
    place.run("--uninstall", "--purge")
    assert added(before, place.snapshot()) == set()


def test_files_that_drain_nodes_are_named(place: Place) -> None:
    (place.epilog_d / "20-not-executable").write_text("#!/bin/sh\n")
    (place.epilog_d / "21-dangling").symlink_to("/no/such/file")
    (place.epilog_d / "22-directory").mkdir()
    place.script(place.epilog_d / "23-interpreter", "#!/no/such/perl -w\n")
    place.script(place.epilog_d / "24-syntax", "#!/bin/sh\nif true; then\n")
    place.script(place.epilog_d / "25-binary", "\x7fELF\0")
    place.command("sinfo", 'echo "n1,n2 Epilog error"; echo "n3 broken fan"')
    output = place.run("--dry-run").stdout
    warned = {line.split()[1].rpartition("/")[2] for line in output.splitlines() if line.startswith("WARNING")}
    assert warned >= {"20-not-executable", "21-dangling", "22-directory", "23-interpreter", "24-syntax"}
    assert "10-site" not in warned
    assert "25-binary" not in warned
    assert "has failed on n1,n2 (drained: Epilog error)" in output


@pytest.mark.parametrize(
    "conf, wanted, unwanted",
    [
        ("", ("JobCompType=jobcomp/script", "with --epilog"), ("      Epilog=", "EpilogSlurmctld")),
        ("Epilog=/etc/site.sh", ("Epilog is the single script /etc/site.sh",), ("50-slurm-triage",)),
        ("EpilogSlurmctld=/x", ("JobCompType=jobcomp/script",), ("EpilogSlurmctld",)),
        ("JobCompType=jobcomp/none", ("JobCompType=jobcomp/script",), ("EpilogSlurmctld",)),
        ("jobcomptype = jobcomp/mysql", ("JobCompType is jobcomp/mysql", "      EpilogSlurmctld="), ("JobCompLoc",)),
        ("JobCompType=jobcomp/script\nJobCompLoc=/x", ("JobCompLoc is your /x.", "      EpilogSlurmctld="), ()),
        ("Include hooks.conf", ("EpilogSlurmctld is your /etc/site-ctld",), ("      EpilogSlurmctld=",)),
        ("JobCompType=jobcomp/mysql\n#EpilogSlurmctld=/x", ("      EpilogSlurmctld=",), ("is your",)),
        ("JobCompType=jobcomp/mysql\nEpilogSlurmctld=/x # why not", ("EpilogSlurmctld is your /x.",), ()),
    ],
)
def test_what_the_site_has_decides(place: Place, conf: str, wanted: tuple[str, ...], unwanted: tuple[str, ...]) -> None:
    (place.slurm / "hooks.conf").write_text("EpilogSlurmctld=/etc/site-ctld\nJobCompType=x\n")
    place.conf.write_text(f"ClusterName=test\nSlurmUser=nobody\n{conf}\n")
    output = place.run().stdout
    assert all(text in output for text in wanted), output
    assert not any(text in output for text in unwanted), output


@pytest.mark.parametrize(
    "version, options, needs",
    [
        ("22.05.8", (), "then: restart slurmctld"),
        ("23.02.7", (), "then: restart slurmctld"),
        ("23.11.1", (), "then: scontrol reconfigure"),
        ("26.05.5", (), "then: scontrol reconfigure"),
    ],
)
def test_it_says_what_slurm_needs(tmp_path: Path, version: str, options: tuple[str, ...], needs: str) -> None:
    assert needs in Place(tmp_path, version).run("--dry-run", *options).stdout


def test_when_epilog_d_is_all_slurm_needs_nothing(place: Place) -> None:
    with open(place.conf, "a") as conf:
        conf.write("EpilogSlurmctld=/x\nJobCompType=jobcomp/mysql\n")
    assert "neither a restart nor a reconfigure" in place.run().stdout


# ---- said wrongly ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, sentence",
    [
        (("--frobnicate",), "unknown option --frobnicate; see --help"),
        (("stray",), "unknown option stray; see --help"),
        (("--edit-slurm-conf=yes",), "unknown option --edit-slurm-conf=yes; see --help"),
        (("--etc",), "--etc needs a value"),
        (("--etc", "relative"), "--etc needs an absolute path, not 'relative'"),
        (("--spool", "/a b"), "--spool: only letters, digits and ._/+@- may be in the path '/a b'"),
        (("--purge",), "--purge goes with --uninstall"),
        (("--keep",), "--keep goes with --demo"),
        (("--no-hooks", "--spank"), "--spank goes with neither --completion-log nor --no-hooks"),
        (("--no-hooks", "--epilog"), "--no-hooks goes without --epilog"),
        (("--python", "/no/such/python"), "--python /no/such/python is not there"),
        (("--slurm-conf", "/no/such/slurm.conf"), "no slurm.conf found; name it with --slurm-conf FILE"),
    ],
)
def test_errors_are_one_sentence(place: Place, options: tuple[str, ...], sentence: str) -> None:
    before = place.snapshot()
    result = place.run(*options, check=False)
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"install.sh: {sentence}")
    assert place.snapshot() == before


@pytest.mark.parametrize(
    "conf, sentence",
    [
        ("SlurmUser=nobody", "names no ClusterName; is it the right file?"),
        ("ClusterName=x\nSlurmUser=no-such-user", "SlurmUser no-such-user does not exist on this host"),
    ],
)
def test_a_slurm_conf_that_cannot_be_used(place: Place, conf: str, sentence: str) -> None:
    place.conf.write_text(conf + "\n")
    assert sentence in place.run(check=False).stderr


def test_help_names_every_option() -> None:
    text = (CHECKOUT / "install.sh").read_text()
    shown = subprocess.run(["sh", CHECKOUT / "install.sh", "--help"], text=True, capture_output=True, check=True).stdout
    options = {
        word for line in text.splitlines() if line.startswith("        --") for word in line.split(")")[0].split()
    }
    options = {option for option in options if option.startswith("--")}
    assert len(options) > 15
    assert {option for option in options if option not in shown} == set()


# ---- nothing is changed, or half done -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [("--dry-run",), ("--dry-run", "--spank", "--epilog"), ("--dry-run", "--uninstall")]
)
def test_a_dry_run_changes_nothing(place: Place, options: tuple[str, ...]) -> None:
    """It works with every file system read-only."""
    if "--uninstall" in options:
        place.run()
    before = place.snapshot()
    read_only = (
        'findmnt -rno TARGET | while read -r place; do mount -o remount,bind,ro "$place" 2>/dev/null; done; '
        f'! touch {place.path("x")} 2>/dev/null || exit 9; exec "$@"'
    )
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", read_only, "sh", *place.argv(*options)],
        env=place.env,
        text=True,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "dry run: nothing was changed." in result.stdout
    assert place.snapshot() == before


#: Of all the calls of commands, so many apart are made to fail; SLURM_TRIAGE_TEST_EVERY=1 tries every one.
EVERY = int(os.environ.get("SLURM_TRIAGE_TEST_EVERY", "7"))


def older_version(place: Place) -> None:
    """An installation of which everything that can differ does."""
    place.run("--edit-slurm-conf")
    place.script(place.path("libexec/jobcomp"), "#!/bin/sh\n# older slurm-triage\nexit 0\n")
    place.path("libexec/mail").unlink()
    place.conf.write_text(place.conf.read_text().replace("JobCompLoc=", "JobCompLoc=/older"))


@pytest.mark.parametrize("how", ["fail", "term"])
@pytest.mark.parametrize("upgrade", [False, True])
def test_whatever_fails_nothing_is_half_done(place: Place, how: str, upgrade: bool) -> None:
    place.shims()
    if upgrade:
        older_version(place)
    before = place.snapshot()
    undone = at = 0
    while True:
        at += EVERY
        result = place.run("--edit-slurm-conf", check=False, FAIL_AT=str(at), FAIL_HOW=how)
        if at > place.calls():
            break
        if result.returncode:
            assert place.snapshot() == before, f"call {at}: {result.stderr}"
            undone += "undoing what was done" in result.stderr
            continue
        # What failed did not matter: then all is there.
        complete = place.snapshot()
        place.run("--edit-slurm-conf")
        assert place.snapshot() == complete, f"call {at}"
        place.run("--uninstall", "--purge")
        if upgrade:
            older_version(place)
    assert undone > 3


def test_killed_at_any_moment_the_next_one_makes_it_good(place: Place) -> None:
    before = place.snapshot()
    place.run("--edit-slurm-conf")
    complete = place.snapshot()
    place.run("--uninstall", "--purge")
    place.shims()
    at = 0
    while True:
        at += 2 * EVERY
        place.run("--edit-slurm-conf", check=False, FAIL_AT=str(at), FAIL_HOW="kill")
        if at > place.calls():
            break
        place.run("--edit-slurm-conf")
        after = {path: value for path, value in place.snapshot().items() if "/." not in f"/{path}"}
        # Killed between making etc/ and noting that, nobody knows whose it is.
        unsure = {"etc", "etc/installed-files"}
        assert {p: after[p] for p in after if p not in unsure} == {p: complete[p] for p in complete if p not in unsure}
        place.run("--uninstall", "--purge")
        left = {path for path in place.snapshot() if path not in before and "/." not in f"/{path}"}
        assert left <= {"etc"}, f"call {at}"
        if left:
            place.path("etc").rmdir()
