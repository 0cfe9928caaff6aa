"""sacct and its kin as commands: absence, errors, silence; and the choice of a source."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.cli.main import main
from slurm_triage.errors import AccountingError, UsageError
from slurm_triage.model.job import Job
from slurm_triage.slurm import choose as choosing
from slurm_triage.slurm import command
from slurm_triage.slurm.choose import choose
from slurm_triage.slurm.controller import Controller, ControllerView, with_true_exit
from slurm_triage.slurm.hook_env import HookAccounting
from slurm_triage.slurm.retry import Backoff
from slurm_triage.slurm.sacct import SacctAccounting, version_number

MakeCommand = Callable[[str, str], str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeCommand:
    """Puts a command of our own in the place of one of Slurm's."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name: str, script: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


SACCT = """
case $1 in
    --version) echo 'slurm-wlm 22.05.8'; exit ;;
    --helpformat) echo 'JobID JobIDRaw State Start End UID NodeList Submit'; exit ;;
esac
printf '%s\\n' "$*" >> "$(dirname "$0")/asked"
d=${4#--delimiter=}
printf '7%s7%s0%sCOMPLETED%s5%s10%s20%sn1%s\\n' "$d" "$d" "$d" "$d" "$d" "$d" "$d" "$d"
"""


@pytest.mark.parametrize("cluster", [None, "elsewhere"])
def test_another_cluster_is_asked_through_accounting_alone(
    make: MakeCommand, tmp_path: Path, cluster: str | None
) -> None:
    """Its job of the same number is not the one that slurmctld here knows."""
    make("sacct", 'case $1 in -M) echo "$1 $2" >>"$(dirname "$0")/asked"; shift 2 ;; esac' + SACCT)
    make("scontrol", 'echo scontrol >>"$(dirname "$0")/asked"; exit 1')
    source = choose("sacct", cluster=cluster).accounting
    assert source.jobs(["7"])["7"].state == "COMPLETED"
    asked = (tmp_path / "asked").read_text()
    assert ("scontrol" in asked, "-M elsewhere" in asked) == (cluster is None, cluster is not None)


def test_a_report_of_another_cluster_is_never_made_of_what_lies_here(
    make: MakeCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slurm-7.out").write_text("ValueError: boom\n")
    (tmp_path / "slurm-8.out").write_text("ValueError: boom\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_TRIAGE_LEDGER", str(tmp_path / "none"))
    monkeypatch.setenv("SLURM_TRIAGE_ACCOUNTING", "sacct")
    show = ["show", "--fresh", "-M", "elsewhere", "--json"]
    make("sacct", f'[ "$1" = -M ] || exit 1; shift 2{SACCT}')
    assert main([*show, "7"]) == 0
    assert json.loads(capsys.readouterr().out)["accounting"]["source"] == "sacct"
    assert main([*show, "8"]) == 3
    assert "neither ledger nor accounting knows a job 8 of elsewhere" in capsys.readouterr().err
    make("sacct", "exit 1")
    assert main([*show, "7"]) == 4
    assert "accounting cannot be asked about elsewhere" in capsys.readouterr().err


def test_the_columns_are_those_the_version_has(make: MakeCommand, tmp_path: Path) -> None:
    make("sacct", SACCT)
    source = SacctAccounting()
    job = source.jobs(["7"], since=86400.0, until=90000.0)["7"]
    assert (job.uid, job.state, job.submit, job.start, job.end) == (0, "COMPLETED", 5.0, 10.0, 20.0)
    assert source.version() == "22.05.8"
    assert not source.has_true_exit_codes
    asked = (tmp_path / "asked").read_text()
    assert "-S 1970-01-02T00:00:00 -E 1970-01-02T01:00:00" in asked
    assert " -D " in asked


def test_two_queries_do_not_share_a_delimiter(make: MakeCommand, tmp_path: Path) -> None:
    make("sacct", SACCT)
    source = SacctAccounting()
    source.jobs(["7"])
    source.jobs(["7"])
    first, second = (line.split(" ")[3] for line in (tmp_path / "asked").read_text().strip().split("\n"))
    assert first != second


def test_thousands_of_ids_take_few_queries(make: MakeCommand, tmp_path: Path) -> None:
    make("sacct", SACCT)
    source = SacctAccounting()
    source.jobs([str(2_000_000_000 + n) for n in range(10_000)], since=0.0)
    assert source.queries == 2
    assert max(map(len, (tmp_path / "asked").read_text().split())) < 128 * 1024


@pytest.mark.parametrize(
    "script, message",
    [
        ("echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1", "Connection refused"),
        ("exit 3", "exit status 3"),
        ("sleep 60", "no answer in 1 s"),
        ("kill -9 $$", "exit status -9"),
    ],
)
def test_failures_are_told_in_slurms_own_words(make: MakeCommand, script: str, message: str) -> None:
    path = make("sacct", script)
    started = time.monotonic()
    with pytest.raises(AccountingError, match=message):
        command.run([path], timeout_s=1.0)
    assert time.monotonic() - started < 10.0


def test_a_missing_command_says_what_to_install() -> None:
    with pytest.raises(AccountingError, match="install Slurm's client commands"):
        command.run(["no-such-sacct"])


def test_a_persons_defaults_do_not_change_the_question(make: MakeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACCT_FORMAT", "jobname")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    path = make("sacct", 'echo "$SACCT_FORMAT/$SLURM_TIME_FORMAT/$TZ/$LC_ALL"')
    assert command.run([path]) == "/%s/UTC/C\n"


def test_a_controller_that_does_not_answer_is_asked_once(make: MakeCommand, tmp_path: Path) -> None:
    count = tmp_path / "count"
    make("scontrol", f"echo x >> {count}; echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    jobs = {str(n): Job(job_id=str(n)) for n in range(5)}
    assert Controller().complete(jobs) == jobs
    assert count.read_text() == "x\n"


def test_a_job_the_controller_has_forgotten(make: MakeCommand) -> None:
    make("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert Controller().show("7") is None
    assert Controller().complete({"7": Job(job_id="7")}) == {"7": Job(job_id="7")}


SQUEUE = r"""
echo "$*" >>"$(dirname "$0")/asked"
[ -z "$SQUEUE_PARTITION" ] || exit 1
d=$(printf %s "$6" | sed 's/.*:1025//')
printf '%-12s%s%-20s%s%-40s%s%-12s%s%-1024s%s%-1025s%s\n' \
    7 "$d" FAILED "$d" NonZeroExitCode "$d" 35072 "$d" "/home/a/%x-%j.out" "$d" "line
8           a word" "$d" \
    9 "$d" OUT_OF_MEMORY "$d" OutOfMemory "$d" 125 "$d" "/$(printf '%01023d' 0)" "$d" "" "$d"
"""


def test_about_many_jobs_the_controller_is_asked_once(
    make: MakeCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    make("scontrol", f"touch {tmp_path}/one-by-one; exit 1")
    make("squeue", SQUEUE)
    jobs = {str(n): Job(job_id=str(n), name="train", state="FAILED", exit_code=9) for n in range(100)}
    found = Controller().complete(jobs)
    assert found["7"] == replace(
        jobs["7"],
        exit_code=137,
        reason="NonZeroExitCode",
        stdout="/home/a/train-7.out",
        comment="line\n8           a word",
    )
    # What accounting says of job 9 is another state; of job 8, nobody but the comment of job 7 speaks.
    assert {**found, "7": jobs["7"]} == jobs
    assert not (tmp_path / "one-by-one").exists()


def test_what_fills_its_column_is_not_believed(make: MakeCommand) -> None:
    """It may have been cut."""
    make("squeue", SQUEUE)
    assert Controller().ended()["9"] == ControllerView(
        state="OUT_OF_MEMORY", reason="OutOfMemory", exit_code=0, exit_signal=125
    )


def test_the_longest_comment_is_whole(make: MakeCommand) -> None:
    """Slurm takes 1 024 bytes; a wish at its end was not seen when many jobs ended at once."""
    comment = "c" * 1013 + " triage=off"
    make("squeue", SQUEUE.replace('"line\n8           a word"', f'"{comment}"'))
    assert Controller().ended()["7"].comment == comment


def test_a_job_of_which_two_rows_speak_is_not_known(make: MakeCommand) -> None:
    """The delimiter stands on squeue's command line, where a user of this host may read it just in time."""
    forged = "9$d FAILED$d Prolog$d 0$d /etc/motd$d x"
    make("squeue", SQUEUE.replace('"line\n8           a word"', f'"x$d\n{forged}"'))
    assert set(Controller().ended()) == {"7"}


def test_a_slow_answer_about_all_jobs_is_asked_for_seldom(make: MakeCommand, tmp_path: Path) -> None:
    make("squeue", "sleep 0.2\n" + SQUEUE)
    jobs = {str(n): Job(job_id=str(n), state="FAILED") for n in range(100)}
    controller = Controller()
    assert controller.complete(jobs)["7"].reason == "NonZeroExitCode"
    assert controller.complete(jobs)["7"].reason is None
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


@pytest.mark.parametrize("script", ["exit 1", "printf '7 FAILED'"])
def test_without_the_controllers_answer_accountings_is_good(make: MakeCommand, script: str) -> None:
    make("squeue", script)
    jobs = {str(n): Job(job_id=str(n), state="FAILED") for n in range(100)}
    assert Controller().complete(jobs) == jobs


@pytest.mark.parametrize("code, signal", [(None, None), (9, None), (138, None), (137, 9), (0, 15)])
def test_only_a_difference_of_128_is_corrected(code: int | None, signal: int | None) -> None:
    job = Job(job_id="7", exit_code=9)
    assert with_true_exit(job, code, signal) == job
    assert with_true_exit(job, 137, None).exit_code == 137


# ---- choice -------------------------------------------------------------------------------------------------------


def test_sacct_is_taken_where_pyslurm_is_not(make: MakeCommand) -> None:
    make("sacct", SACCT)
    choice = choose(pyslurm_python=(make("python-without", "exit 1"),))
    assert choice.accounting.name == "sacct"
    assert choice.why[0].startswith("pyslurm cannot be used: ")
    assert choice.why[-1] == "sacct 22.05.8 works"


def test_pyslurm_comes_first(make: MakeCommand) -> None:
    make("sacct", SACCT)
    python = make("python-with", 'echo \'{"pyslurm": "25.11.2", "slurm": "25.11.0"}\'; cat >/dev/null')
    choice = choose(pyslurm_python=(python,))
    assert choice.accounting.name == "pyslurm"
    assert choice.why == ("pyslurm 25.11.2 works, with Slurm 25.11.0",)
    choice.accounting.close()


def test_without_slurm_the_hooks_words_remain(
    make: MakeCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del make
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(choosing.importlib.util, "find_spec", lambda _: None)
    choice = choose()
    assert choice.accounting.name == "hook"
    assert len(choice.why) == 3
    with pytest.raises(AccountingError, match="sacct"):
        choose("sacct")


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(UsageError, match="auto, pyslurm, sacct, hook"):
        choose("slurmdb")


def test_the_hooks_words_are_never_final() -> None:
    env = {"JOBID": "7", "JOBSTATE": "COMPLETED", "EXITCODE": "0:0", "NODES": "n1", "START": "5", "END": "9"}
    source = HookAccounting([env, {"nothing": "here"}])
    job = source.jobs(["7", "8"])["7"]
    assert (job.state, job.final, job.source) == ("COMPLETED", False, "hook")
    with pytest.raises(AccountingError):
        source.recent(0, 1)


def test_backoff_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first_s=0.5, factor=2.0, longest_s=60.0)
    assert [backoff.delay_s(n) for n in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.delay_s(10**6) == 60.0


def test_versions_compare() -> None:
    assert version_number("22.05.8") == (22, 5) < version_number("26.05.5")
    assert version_number("unknown") == (0, 0)
