"""From facts to the verdict, step by step. Pure: same input, same result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_triage.diagnosis import (
    advice,
    collectives,
    culprit,
    heartbeat,
    last_resort,
    narrative,
    notes,
    numbering,
    ranks,
    special,
    status,
    suspects,
    telling,
)  # fmt: skip
from slurm_triage.diagnosis.cause import (
    ONLY_CONSEQUENCES,
    PRINT_LAG_STEPS,
    STALL_RULE,
    UNANSWERED,
    Cause,
    assign_roles,
    choose,
    is_open_warning,
    steps_after,
)
from slurm_triage.diagnosis.classes import STOPS
from slurm_triage.diagnosis.cluster_map import job_nodes, node_of
from slurm_triage.diagnosis.completion import End, obeyed_stop, read_end, stopped_for
from slurm_triage.diagnosis.conditions import sort_matches
from slurm_triage.diagnosis.confidence import confidence_of
from slurm_triage.diagnosis.evidence import Evidence
from slurm_triage.diagnosis.exits import accounting_findings, exit_findings, merge_exits
from slurm_triage.diagnosis.losses import bad_loss
from slurm_triage.diagnosis.stall import Stall, announced, find_stall
from slurm_triage.model.diagnosis import Diagnosis, Finding, Primary
from slurm_triage.model.duration import human
from slurm_triage.model.facts import AttemptFacts
from slurm_triage.model.progress import Progress, Throughput
from slurm_triage.model.rule import FailureClass
from slurm_triage.progress.heartbeat_timeout import recommended_timeout_s

#: Longest time a collective may wait before its watchdog speaks (torch: 10 to 30 min by version).
_WATCHDOG_S = 1800.0
#: Where a job was when only accounting tells of its end.
_STAGES = {"prolog-kill-no-log": "Slurm prolog", "prolog-fail": "Slurm prolog"}


def diagnose(evidence: Evidence) -> Diagnosis:
    """The verdict on the last attempt. ``next_steps`` is filled in by the report, which has all values at hand."""
    job, progress = evidence.job, evidence.progress
    nodes = job_nodes(job, evidence.attempt)
    attempt = numbering.with_places(evidence.attempt, nodes)
    evidence = replace(evidence, attempt=attempt)
    end = read_end(job, attempt, progress)
    judged = sort_matches(attempt, evidence.ruleset)
    loss = bad_loss(attempt)
    found = (*judged.findings, *exit_findings(attempt, nodes), *accounting_findings(job), *([loss] if loss else []))
    found = numbering.with_workers(found, attempt)
    comparison = collectives.compare(evidence.of_kind("collective"))
    teardown_seq = _teardown_seq(evidence, end)
    found = assign_roles(collectives.annotate(found, comparison), attempt, teardown_seq)
    found = numbering.in_words(heartbeat.with_alarm(found, attempt))
    stall = _stall(evidence, found, end)
    asked_to_stop = obeyed_stop(
        attempt,
        evidence.of_kind("sigterm"),
        evidence.of_kind("clean_end"),
        reached_last_step=end.reached_last_step,
    )
    cause, found = _cause(evidence, end, found, stall, asked_to_stop, teardown_seq)
    end = stopped_for(end, cause)
    classes = {c.id: c for c in evidence.ruleset.classes}
    remarks, changes = notes.remarks(evidence, cause, found, stall, comparison)
    exits = merge_exits(attempt.exits, attempt, nodes)
    verdict = status.decide(
        end, cause, found, stall, finished_text=bool(evidence.of_kind("clean_end")), asked_to_stop=asked_to_stop
    )
    primary = _primary(cause, found, stall, end, classes, evidence, nodes)
    blamed = suspects.find_suspects(primary, found, nodes)
    resubmit = advice.advise(
        verdict, primary, blamed, progress, changes,
        None if cause is not None and heartbeat.is_true_alarm(cause)
        else recommended_timeout_s(progress, attempt.config),
        attempt.stage_limits_s,
    )  # fmt: skip
    return Diagnosis(
        status=verdict,
        primary=primary,
        findings=found,
        suppressed=judged.suppressed,
        harmless=judged.harmless,
        exits=exits,
        suspects=blamed,
        resubmit=resubmit,
        ranks=ranks.rank_views(found, exits, attempt, progress, nodes),
        narrative=narrative.tell(
            verdict,
            primary,
            cause,
            notes.explanation(evidence, cause, found, comparison, classes),
            progress,
            stall,
            end,
            evidence.files.problem,
        ),
        next_steps=(),
        notes=remarks,
        chain=narrative.chain(found, cause, stall),
        telling=numbering.telling_by_rank(
            telling.telling_lines(verdict, primary, cause, attempt, teardown_seq), attempt
        ),
    )


def _teardown_seq(evidence: Evidence, end: End) -> int | None:
    """Log position of the first sign that the job is being stopped; later errors are not causes (pitfall: everything
    behind the cancel line is teardown)."""
    seqs = [f.seq for f in evidence.of_kind("teardown") if f.first.file == 0]
    if end.stop_seq is not None:
        seqs.append(end.stop_seq)
    return min(seqs, default=None)


def _stall(evidence: Evidence, found: Sequence[Finding], end: End) -> Stall | None:
    """A stall counts as an event of its own only beyond what another finding's own timeout explains."""
    extra = 0.0
    for finding in found:
        if finding.cls == "heartbeat-timeout":
            extra = max(extra, heartbeat.timeout_of(evidence.attempt))
        elif finding.cls in {"nccl-timeout", "coordination-fail"}:
            seconds = finding.match.captures.get("seconds", "") if finding.match is not None else ""
            extra = max(extra, float(seconds) if seconds.replace(".", "", 1).isdigit() else _WATCHDOG_S)
    if end.reached_last_step:
        return None
    if evidence.stall is not None:
        return evidence.stall
    return find_stall(evidence.attempt, evidence.progress, evidence.fact_kind, extra_limit_s=extra)


def _cause(
    evidence: Evidence,
    end: End,
    found: Sequence[Finding],
    stall: Stall | None,
    asked_to_stop: bool,
    teardown_seq: int | None,
) -> tuple[Finding | None, tuple[Finding, ...]]:
    """The initiating finding and all findings with final roles."""
    extra: list[Finding] = []
    if not evidence.files.logs or not evidence.facts.attempts:
        missing, _ = special.without_log(evidence.job, evidence.files)
        extra.extend([missing] if missing is not None else [])
    restores = evidence.of_kind("restore")
    if special.nothing_left_to_do(evidence.progress, restores) and end.claims_success is not False:
        return None, tuple(found)
    if stall is not None and not end.claims_success:
        extra.append(_hang(stall, evidence.progress))
    found = tuple(_overruled(f, end) for f in found)
    failed = end.claims_success is False or any(e.code and not e.victim for e in evidence.attempt.exits)
    if not _only_step_cancelled(evidence.attempt):
        told = last_resort.suggested(None, found, evidence.attempt, evidence.ruleset, teardown_seq, failed=failed)
        late = evidence.job.state == "DEADLINE"
        stops = _stop_findings(end, late, asked_to_stop, told is None and _step_stopped(evidence, found))
        extra.extend(s for s in stops if not any(f.cls == s.cls and f.role == "root" for f in found))
    prompt = {rule.id for rule in evidence.ruleset.rules if rule.prompt}
    before = stall is not None and announced(found, stall, evidence.progress, prompt)
    result = choose([*found, *extra], announced=before)
    if end.live and stall is None and result.primary is not None and result.primary.why == UNANSWERED:
        # XLA warns after 20 seconds of waiting; a job that runs may still get its answer.
        result = Cause(None, (*found, *extra))
    if _outlived(result.primary, evidence.attempt, end) and not failed:
        result = Cause(None, (*found, *extra))
    if not _went_well(evidence, end):
        suggested = last_resort.suggested(
            result.primary, result.findings, evidence.attempt, evidence.ruleset, teardown_seq, failed=failed
        )
        if suggested is not None:
            rest = [f for f in (*found, *extra) if f.match is None or f.match is not suggested.match]
            result = last_resort.chosen(suggested, rest)
    cause = result.primary
    soft = special.soft_success(evidence.attempt, evidence.progress, end, cause)
    if soft is not None:
        return soft, (soft, *(_demoted(f, "training was already complete") for f in result.findings))
    said_done = bool(evidence.of_kind("clean_end"))
    arrived = (end.reached_last_step is not False or said_done) and not special.fell_short(cause, evidence.progress)
    if end.claims_success and arrived:
        remark = _remark(cause, evidence)
        others = tuple(_demoted(f, notes.ALL_THE_SAME) for f in result.findings if f is not remark)
        return remark, (*((remark,) if remark is not None else ()), *others)
    if end.claims_success and not said_done:
        short = special.incomplete_success(evidence.progress, end, asked_to_stop)
        if short is not None and (cause is None or cause.cls in STOPS | {"incomplete-success"}):
            return short, (short, *result.findings)
    slow = _slow(evidence.throughput)
    if cause is None:
        cause = (None if slow is not None else _interrupted(found, end) or _unexplained(evidence, end)) or slow
        return cause, (*((cause,) if cause is not None else ()), *result.findings)
    if slow is not None:
        return cause, (*result.findings, replace(slow, role="context", why=f"{cause.cls} is what ended the job"))
    return cause, result.findings


def _outlived(cause: Finding | None, attempt: AttemptFacts, end: End) -> bool:
    """Some rank lost a peer that printed nothing, and then training was started again and got to its last step."""
    if cause is None or cause.why != ONLY_CONSEQUENCES or not end.reached_last_step:
        return False
    return steps_after(cause, attempt.series) > PRINT_LAG_STEPS


def _overruled(finding: Finding, end: End) -> Finding:
    """Many lines say that a job was stopped, for whatever reason; accounting knows which it was, else Slurm's own
    words do (DUE TO ...)."""
    known = end.by_accounting or end.stop in {"time-limit", "preempted", "requeued", "node-fail"}
    if finding.cls in STOPS - {"train-timeout"} and known and finding.cls != end.stop:
        known_as = f"the job's end was {end.stop}" if end.stop else "accounting knows of no stop from outside"
        return replace(finding, role="context", why=known_as)
    return finding


def _remark(cause: Finding | None, evidence: Evidence) -> Finding | None:
    """What a run that is not failing still deserves to be told: worthless losses, lost speed."""
    if cause is not None and cause.cls == "nan-loss":
        return cause
    return _slow(evidence.throughput)


def _slow(speed: Throughput) -> Finding | None:
    if not speed.degraded or speed.change is None:
        return None
    span = f" from step {speed.from_step}" if speed.from_step is not None else ""
    title = f"throughput fell by up to {-speed.change:.0%}{span} ({speed.pattern or 'unclear'} pattern)"
    return Finding("tgs-degradation", "root", "throughput", title, step=speed.from_step)


def _demoted(finding: Finding, why: str) -> Finding:
    return replace(finding, role="context", why=why) if finding.role in {"root", "contributor"} else finding


def _hang(stall: Stall, progress: Progress) -> Finding:
    where = {
        "init": "before the first step",
        "restore": "while restoring a checkpoint",
        "checkpoint": f"after step {progress.last_step}, at a checkpoint",
        "eval": f"after step {progress.last_step}, in evaluation",
    }.get(stall.phase, f"after step {progress.last_step}")
    title = f"training stood still for {human(stall.silence_s)} {where}"
    if stall.after and stall.phase != "restore":
        title += f" (last activity: {stall.after})"
    why = "no further step was completed, and no error came before the silence"
    return Finding("hang", "root", STALL_RULE, title, step=progress.last_step, why=why)


def _step_stopped(evidence: Evidence, found: Sequence[Finding]) -> bool:
    """srun was told to stop the step, and not because one of its tasks had failed: it stops a step after every
    failure."""
    by_failure = any("FAILURE" in (c.cause or "") for c in evidence.attempt.cancellations)
    failed = any(f.role in {"root", "consequence"} or is_open_warning(f) for f in found)
    return bool(evidence.of_kind("teardown")) and not by_failure and not failed


def _only_step_cancelled(attempt: AttemptFacts) -> bool:
    """Slurm says that a step was stopped and not that the job was: it says both when somebody cancels a job."""
    kinds = {c.kind for c in attempt.cancellations}
    return kinds == {"STEP"} and bool(attempt.stages)


def _stop_findings(end: End, late: bool, asked_to_stop: bool, step_stopped: bool) -> list[Finding]:
    titles = {
        "cancelled": "the job was cancelled",
        "time-limit": f"Slurm stopped the job at its {'deadline' if late else 'time limit'}",
        "preempted": "the job was preempted",
        "requeued": "the job was requeued",
    }
    if end.stop in titles:
        return [Finding(end.stop, "root", "job-end", titles[end.stop])]
    if end.ended or end.live or end.waiting:
        return []
    if asked_to_stop:
        return [Finding("cancelled", "root", "job-end", "the processes were asked to stop (SIGTERM)")]
    if step_stopped:
        return [Finding("cancelled", "root", "job-end", "srun was told to stop the step")]
    return []


def _went_well(evidence: Evidence, end: End) -> bool:
    """Nothing has gone wrong, as far as can be told: it runs, waits, or finished."""
    finished = end.claims_success or end.reached_last_step or bool(evidence.of_kind("clean_end"))
    return end.live or end.waiting or bool(finished)


def _interrupted(found: Sequence[Finding], end: End) -> Finding | None:
    """A job that failed for no other reason than a stop of which accounting does not know: somebody sent the signal to
    the program itself."""
    stops = (f for f in found if f.cls == "cancelled" and f.role == "context" and f.match is not None)
    stop = next(stops, None) if end.claims_success is False and end.stop is None else None
    return replace(stop, role="root", why="nothing else explains the end") if stop is not None else None


def _unexplained(evidence: Evidence, end: End) -> Finding | None:
    """Nothing explains the end. Only claim a death when the log proves that training was not finished."""
    if _went_well(evidence, end):
        return None
    attempt, progress = evidence.attempt, evidence.progress
    if end.claims_success is False:
        failed = next((s for s in attempt.stages if s.result == "failed"), None)
        if failed is not None:
            return Finding("stage-fail", "root", "stage", f"stage {failed.name} failed (exit {failed.exit_code})")
        return Finding("unknown-death", "root", "completion", "the job failed and nothing in the log says why")
    # A log of an unknown program may simply be a part of a longer one. The launcher always ends with a summary, and a
    # run that announced its number of steps did not get there.
    started = attempt.header.job_id is not None or "steps" in attempt.config or bool(evidence.of_kind("launched"))
    if not started or not evidence.facts.attempts:
        return None
    where = "in the middle of a line" if attempt.ends_mid_line else "without a summary and without an error"
    return Finding("unknown-death", "root", "completion", f"the log ends {where}", step=progress.last_step)


def _is_address(name: str | None) -> bool:
    """Ray names nodes by their addresses, where Slurm's name is what helps."""
    return name is None or name.replace(".", "").isdigit()


def _primary(
    cause: Finding | None,
    found: Sequence[Finding],
    stall: Stall | None,
    end: End,
    classes: Mapping[str, FailureClass],
    evidence: Evidence,
    nodes: Sequence[str],
) -> Primary | None:
    if cause is None:
        return None
    known = classes.get(cause.cls)
    rule = evidence.ruleset.by_id(cause.rule)
    same = sorted({f.rank for f in found if f.cls == cause.cls and f.role == "root" and f.rank is not None})
    rank = culprit.culprit_rank(cause, found, evidence.attempt, nodes)
    if rank != cause.rank or collectives.sub_cause(cause) is not None:
        same = [rank] if rank is not None else sorted(heartbeat.accused_ranks(cause, evidence.attempt))
    by_rule = rule.stage if rule is not None else None
    open_stages = [s.name for s in evidence.attempt.stages if s.result in {"failed", "timeout", "running"}]
    in_training = "Training" if evidence.progress.last_step is not None else None
    stage = open_stages[-1] if open_stages else by_rule or _STAGES.get(cause.cls, in_training)
    captured = cause.match.captures.get("node") if cause.match is not None else None
    accused = rank != cause.rank and rank in heartbeat.accused_ranks(cause, evidence.attempt)
    several = numbering.several_per_task(evidence.attempt)
    label = numbering.task_of(rank, evidence.attempt) if several and accused else rank
    own = node_of(label, evidence.attempt, nodes)
    node = own if own and _is_address(captured) else captured or own or (cause.node if rank == cause.rank else None)
    domain = rule.domain if rule is not None and rule.domain != "unknown" else known.domain if known else "unknown"
    retry = rule.retry if rule is not None and rule.retry else known.retry if known else "same-nodes"
    sub = collectives.sub_cause(cause)
    if sub in collectives.OWN_FAULT:
        domain, retry = "user", "after-fix"
    elif sub in collectives.ABSENT:
        domain = "unknown"
    if heartbeat.is_true_alarm(cause):
        domain, retry = "unknown", "same-nodes"
    own_step = next((r.last for r in evidence.progress.ranks if label is not None and r.rank == label), None)
    known_steps = (cause.step, own_step) if rank == cause.rank else (own_step, cause.step)
    step = next((s for s in (*known_steps, evidence.progress.last_step) if s is not None), None)
    odd = collectives.odd_rank(cause) if sub is not None else None
    if odd is not None:
        rank, same = odd, [odd]
    elif rank == cause.rank != cause.said_by:
        # The global rank is what people know.
        same = sorted({f.said_by for f in found if f.cls == cause.cls and f.role == "root" and f.said_by is not None})
        rank = cause.said_by if cause.said_by is not None or len(same) != 1 else same[0]
    elif several and rank != cause.rank and not accused:
        # Who is known by a label alone is a task.
        rank, same = None, []
    return Primary(
        cls=cause.cls,
        title=cause.title,
        stage=stage,
        domain=domain,
        rank=rank,
        ranks=tuple(same),
        node=node,
        step=step,
        confidence=confidence_of(
            cause, found, stall, end, evidence.attempt, may_be_resolved=rule is not None and bool(rule.resolved_by)
        ),
        retry=retry,
    )
