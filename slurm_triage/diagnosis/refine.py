"""Sub-diagnoses: what exactly went wrong within a class, from the job's own settings and numbers."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from slurm_triage.diagnosis.cause import PRINT_LAG_STEPS
from slurm_triage.diagnosis.heartbeat import timeout_of
from slurm_triage.model.diagnosis import Finding
from slurm_triage.model.duration import human
from slurm_triage.model.facts import AttemptFacts, ExitRecord
from slurm_triage.model.files import JobFiles
from slurm_triage.model.progress import Progress

#: Seed, "GPU OOM diagnosis": below .93 the fraction is the first thing to raise; above, communication buffers starve.
GOOD_MEM_FRACTION = 0.93
#: Shorter saves neither explain a silence nor come near a heartbeat timeout.
_TELLING_COST_S = 1.0
#: A save this close to the heartbeat timeout may be taken for a death (seed, checkpoint step 2).
_RISKY_SHARE = 0.5
_MAX_LISTED = 16
_CORE_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
_CORE_WORDS = ("SIGSEGV", "SIGABRT", "SIGBUS", "Segmentation fault", "Aborted", "Bus error")
#: What shows that JAX or XLA managed the memory, in a line, a title or the name of a variable.
_XLA_WORDS = ("xla", "jax", "resource_exhausted")
_BUFFER_WORDS = ("nccl", "rccl", "cuda calloc", "hsa_status_error_out_of_resources")


def mem_fraction(attempt: AttemptFacts) -> float | None:
    text = attempt.env.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "")
    for arg in attempt.launch_args:
        if arg.startswith("_env_XLA_PYTHON_CLIENT_MEM_FRACTION="):
            text = arg.partition("=")[2]
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def gpu_oom(finding: Finding, attempt: AttemptFacts) -> tuple[str, Mapping[str, str]]:
    """(note, arguments to change) for a GPU that ran out of memory: fraction too low, too high, or really too big.
    Nothing for a job that does not show JAX or XLA: others have no such fraction."""
    fraction = mem_fraction(attempt)
    text = finding.match.first.text.lower() if finding.match is not None else ""
    places = " ".join((text, finding.title, *attempt.env)).lower()
    if fraction is None and not attempt.config and not any(word in places for word in _XLA_WORDS):
        return "", {}
    if any(word in text for word in _BUFFER_WORDS):
        lower = ".85" if fraction is None or fraction > 0.85 else f"{fraction - 0.05:.2f}".lstrip("0")
        shown = f" (now {fraction:g})" if fraction is not None else ""
        return (
            "The communication library found no memory outside XLA's share: "
            f"lower XLA_PYTHON_CLIENT_MEM_FRACTION{shown}.",
            {"_env_XLA_PYTHON_CLIENT_MEM_FRACTION": lower},
        )
    if fraction is not None and fraction < GOOD_MEM_FRACTION:
        return (
            f"XLA_PYTHON_CLIENT_MEM_FRACTION is {fraction:g}: raise it to {GOOD_MEM_FRACTION:g} before changing batch "
            "size or parallelism.",
            {"_env_XLA_PYTHON_CLIENT_MEM_FRACTION": f"{GOOD_MEM_FRACTION:g}".lstrip("0")},
        )
    if fraction is not None:
        return (
            f"XLA_PYTHON_CLIENT_MEM_FRACTION is already {fraction:g}: reduce per_device_batch_size or "
            "max_target_length, or set remat_policy=full.",
            {"remat_policy": "full"} if attempt.config.get("remat_policy") not in {None, "full"} else {},
        )
    return (
        "The log does not show XLA_PYTHON_CLIENT_MEM_FRACTION; check it first "
        "(0.85 is too low for the largest models).",
        {},
    )


def checkpoint(
    attempt: AttemptFacts, files: JobFiles, progress: Progress, finding: Finding, fact_kind: Mapping[str, str]
) -> tuple[str, ...]:
    """Is the checkpoint usable? Ask every rank and the directory (seed, "Checkpoint filesystem error diagnosis")."""
    saved: dict[int, set[int | None]] = {}
    for fact in attempt.facts:
        text = fact.captures.get("step", "")
        if fact_kind.get(fact.rule) == "checkpoint_saved" and text.isdigit():
            saved.setdefault(int(text), set()).add(fact.rank)
    committed = {c.step for c in files.checkpoints if c.committed}
    pending = sorted(c.step for c in files.checkpoints if not c.committed)
    notes: list[str] = []
    candidates = [s for s in saved if finding.step is None or s >= finding.step - 1] or list(saved)
    step = max(candidates, default=None)
    if committed:
        newest = max(committed)
        notes.append(f"The newest complete checkpoint on disk is step {newest}; restart from it.")
        if step is not None and step in committed:
            notes.append(f"Checkpoint {step} is intact: its directory has its final name.")
    if pending:
        notes.append(f"Checkpoint {pending[-1]} was never completed: its directory still has its temporary name.")
    if step is not None and step not in committed:
        ranks = saved[step] - {finding.rank}
        if ranks:
            who = "One other rank reports" if len(ranks) == 1 else f"{len(ranks)} other ranks report"
            notes.append(
                f"{who} that checkpoint {step} was saved: it is probably intact; check that its directory has its "
                "final name."
            )
    if not notes:
        notes.append(
            "Nothing in the log proves that the checkpoint was completed; look for its directory without a temporary "
            "suffix before restarting."
        )
    if progress.checkpoint_cost_s is not None and progress.checkpoint_cost_s >= _TELLING_COST_S:
        notes.append(f"A checkpoint takes about {human(progress.checkpoint_cost_s)} here.")
        timeout_s = timeout_of(attempt)
        if progress.checkpoint_cost_s > _RISKY_SHARE * timeout_s:
            notes.append(f"That is close to the heartbeat timeout ({human(timeout_s)}): a save may pass for a death.")
    if finding.rank == 0 and attempt.header.ray_port is not None:
        notes.append(
            "Rank 0 is Ray's head node: its own services write to the same storage, so it meets such errors first."
        )
    return tuple(notes)


def hang(progress: Progress, *, at_barrier: bool, all_ended: bool) -> tuple[str, ...]:
    """Who stopped where (seed, "Hang diagnosis"): all at the same step is a deadlock; one behind is where to look.
    ``at_barrier``: the ranks announced the barrier before the training loop. ``all_ended``: no rank vanished."""
    last = {r.rank: r.last for r in progress.ranks if r.rank is not None}
    if not last:
        note = "The ranks reached the barrier before the training loop: the first collective hung."
        return (note,) if at_barrier else ()
    furthest = max(last.values())
    behind = sorted(rank for rank, step in last.items() if step < furthest - PRINT_LAG_STEPS)
    if behind and len(behind) * 2 < len(last):
        return (f"Rank {_listed(behind)} stopped earlier than the others (step {furthest}): look there first.",)
    if len(last) > 1 and not behind:
        alike = f"All {len(last)} ranks stopped after the same step"
        return (f"{alike}: a deadlock in a collective; a dead node is unlikely." if all_ended else f"{alike}.",)
    return ()


def node_exit_notes(findings: Sequence[Finding], exits: Sequence[ExitRecord]) -> tuple[str, ...]:
    """What the signal of the first crash usually means (seed, "Diagnosing node failures")."""
    crash = next((f for f in findings if f.cls == "signal-kill" and f.role == "root"), None)
    if crash is None:
        return ()
    number = next((e.signal for e in exits if e.rank == crash.rank and e.signal is not None and not e.victim), None)
    if number in _CORE_SIGNALS or any(word in crash.title for word in _CORE_WORDS):
        return ("A crash of this kind usually leaves a core dump; see the paths in the next steps.",)
    return ()


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:_MAX_LISTED])) + (" ..." if len(ranks) > _MAX_LISTED else "")
