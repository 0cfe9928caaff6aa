"""Who ended how, and who only because another rank ended first.

A stage timeout ends in SIGKILL for all tasks. After one task of a step fails,
 ``srun --kill-on-bad-exit`` stops the others: they end with 143 (or are Killed), and the
stage's own code is the highest of all, so that 143 hides 1, 7, 134 and 139. The first exit that is not a stop tells.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_triage.model.exit_status import STOP_SIGNALS, decode_signal
from slurm_triage.model.facts import Cancellation, ExitRecord, Match

#: srun's words for a task that a signal ended are the C library's: "Segmentation fault", "Bus error" ...
_SIGNAL_WORDS = {text: int(s) for s in signals.valid_signals() if (text := signals.strsignal(s)) is not None}
#: srun's words for a task's end without an exit code.
_OUT_OF_MEMORY = "Out Of Memory"


def exits_from(
    by_kind: Mapping[str, Sequence[Match]], cancellations: Sequence[Cancellation], *, ray: bool
) -> tuple[ExitRecord, ...]:
    """All exits in log order, victims marked, the first bad one flagged."""
    records = [
        *(_node_exit(f, ray) for f in by_kind.get("node_exit", ())),
        *(r for f in by_kind.get("srun_exit", ()) for r in _srun_exits(f, ray)),
        *(_train_rc(f, ray) for f in by_kind.get("train_rc", ()) if f.captures.get("code") != "0"),
        *(_torchrun(f) for f in by_kind.get("torchrun_exit", ()) if "code" in f.captures),
        *(_ray_exit(f) for f in by_kind.get("ray_exit", ()) if f.captures.keys() & {"code", "signal"}),
    ]
    records.sort(key=lambda r: r.seq)
    job_cancel_seq = min((c.seq for c in cancellations if c.kind == "JOB"), default=None)
    timed_out = any(f.captures.get("result") == "TIMEOUT" for f in by_kind.get("stage", ()))
    teardown_seq = min((f.seq for f in by_kind.get("teardown", ())), default=None)
    requests = [f.seq for kind in ("teardown", "sigterm") for f in by_kind.get(kind, ())]
    requests += [c.seq for c in cancellations]
    kill_wait = _by_kill_wait(records, teardown_seq)
    seen_bad = False
    result: list[ExitRecord] = []
    for record in records:
        # torchrun had seen nobody fail before this worker, and was not told to stop: somebody stopped it alone.
        asked_to_stop = timed_out or any(seq < record.seq for seq in requests)
        alone = record.origin == "torchrun" and not (seen_bad or asked_to_stop)
        stopped = (record.signal in STOP_SIGNALS and not alone) or (
            record.signal == 9
            and (
                # Who swallows the SIGTERM of a cancelled job (JAX does) gets SIGKILL after Slurm's KillWait.
                _after(record, job_cancel_seq)
                or (kill_wait and seen_bad and _after(record, teardown_seq))
                or (
                    record.origin == "srun"
                    and (seen_bad or timed_out or job_cancel_seq is not None or _after(record, teardown_seq))
                )
            )
        )
        victim = record.code != 0 and (stopped or (seen_bad and record.origin == "torchrun" and record.victim))
        first_bad = record.code != 0 and not victim and not seen_bad
        seen_bad = seen_bad or first_bad
        result.append(replace(record, victim=victim, first_bad=first_bad))
    return tuple(result)


def _by_kill_wait(records: Sequence[ExitRecord], teardown_seq: int | None) -> bool:
    """Whether the tasks that were stopped for another's failure swallowed SIGTERM: several end by SIGKILL after srun
    began to stop the step, and none by SIGTERM. A single one may be the culprit whose end is printed late."""
    killed = {r.rank for r in records if r.signal == 9 and _after(r, teardown_seq)}
    return len(killed) > 1 and not any(r.signal in STOP_SIGNALS for r in records)


def _after(record: ExitRecord, seq: int | None) -> bool:
    return seq is not None and record.seq > seq


def _node_exit(fact: Match, ray: bool) -> ExitRecord:
    code = int(fact.captures.get("code", "0"))
    host = fact.captures.get("node") or None
    signal = decode_signal(code, ray=ray)
    return ExitRecord(fact.rank, host, code, signal, False, "node_exit", fact.first.text, fact.seq, place=fact.first)


def _train_rc(fact: Match, ray: bool) -> ExitRecord:
    code = int(fact.captures.get("code", "0"))
    return ExitRecord(
        fact.rank,
        None,
        code,
        decode_signal(code, ray=ray),
        False,
        "train_rc",
        fact.first.text,
        fact.seq,
        place=fact.first,
    )


def _srun_exits(fact: Match, ray: bool) -> list[ExitRecord]:
    captures = fact.captures
    code_text, word = captures.get("code"), captures.get("word") or ""
    code = int(code_text) if code_text else None
    signal = decode_signal(code, ray=ray)
    if code is None:
        # "Segmentation fault (core dumped)", "Killed", "Out Of Memory"
        plain = word.partition(" (")[0]
        signal = 9 if plain.startswith(_OUT_OF_MEMORY) else _SIGNAL_WORDS.get(plain)
        if signal is None:
            return []
    hosts = captures.get("node")
    return [
        ExitRecord(rank, hosts, code, signal, False, "srun", fact.first.text, fact.seq, place=fact.first)
        for rank in task_numbers(captures.get("tasks", ""))
    ]


def _torchrun(fact: Match) -> ExitRecord:
    code = int(fact.captures["code"])
    rank = fact.captures.get("rank")
    return ExitRecord(
        # srun's label, where there is one: torchrun's ranks count workers, not tasks.
        fact.rank if fact.rank is not None else int(rank) if rank else None,
        fact.captures.get("node"),
        code,
        decode_signal(code),
        False,
        "torchrun",
        f"worker of global rank {rank} failed first on its node: exitcode {code}",
        fact.seq,
        place=fact.first,
        worker=int(rank) if rank else None,
    )


def _ray_exit(fact: Match) -> ExitRecord:
    captures = fact.captures
    signal = int(captures["signal"]) if captures.get("signal") else None
    code = int(captures["code"]) if captures.get("code") else None
    rank = int(captures["rank"]) if captures.get("rank") else fact.rank
    return ExitRecord(
        rank, captures.get("node"), code, signal, False, "ray", fact.first.text, fact.seq, place=fact.first
    )


def task_numbers(text: str, limit: int = 4096) -> list[int]:
    """Task ids in ``0-3,7`` or ``[0-3,7]``; at most ``limit``."""
    numbers: list[int] = []
    for part in text.strip("[]").split(","):
        low, _, high = part.partition("-")
        if not low.isdigit() or len(low) > 7 or (high and (not high.isdigit() or len(high) > 7)):
            continue
        numbers.extend(range(int(low), min(int(high or low), int(low) + limit) + 1))
    return numbers[:limit]
