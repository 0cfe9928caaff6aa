"""Tallies of one attempt, over all files of the job, folded into frozen facts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_triage.logs.exits import exits_from
from slurm_triage.logs.tally import AttemptTally
from slurm_triage.model.duration import parse_wall
from slurm_triage.model.facts import AttemptFacts, Cancellation, Header, Match, RankTail, Stage, StepSeries, Summary
from slurm_triage.model.rule import RuleSet


def fold_attempt(
    index: int,
    tallies: Sequence[AttemptTally],
    ruleset: RuleSet,
    series: Sequence[StepSeries],
    tails: Sequence[RankTail],
) -> AttemptFacts:
    """Facts of one attempt. ``tallies[0]`` comes from the primary log and owns the header; the others add to it."""
    first = tallies[0]
    kinds = {rule.id: rule.fact for rule in ruleset.rules if rule.fact}
    header = _header(first.header)
    facts = sorted((f for t in tallies for f in t.facts), key=lambda f: f.seq)
    matches = [_with_uncounted(m.frozen(), t.uncounted) for t in tallies for m in (*t.earlier, *t.matches.values())]
    matches = _merge_copies(sorted(matches, key=lambda m: m.seq))
    args, exact = _launch_args(first.launch_trace, header.passthrough_args)
    rank_hosts: dict[int, str] = {}
    for tally in tallies:
        for rank, host in tally.rank_hosts.items():
            rank_hosts.setdefault(rank, host)
    times = [t for tally in tallies for t in (tally.first_time, tally.last_time) if t is not None]
    times.extend(t.time for t in tails if t.time is not None)
    by_kind = _by_kind(facts, kinds)
    cancellations = tuple(_cancellation(f) for f in by_kind.get("cancel", ()))
    return AttemptFacts(
        index=index,
        header=header,
        matches=tuple(matches),
        facts=tuple(facts),
        stages=_stages(by_kind.get("stage", ())),
        stage_limits_s=_stage_limits(by_kind.get("stage_limit", ())),
        exits=exits_from(by_kind, cancellations, ray=header.ray_port is not None),
        summaries=tuple(s for s in map(_summary, by_kind.get("summary", ())) if s is not None),
        cancellations=cancellations,
        series=tuple(series),
        config=_first_known(t.config for t in tallies),
        env=_first_known(t.env for t in tallies),
        launch_args=args,
        launch_args_exact=exact,
        rank_hosts=rank_hosts,
        procs_per_node=next((t.procs_per_node for t in tallies if t.procs_per_node), None),
        tails=tuple(tails),
        start_time=min(times, default=None),
        end_time=max(times, default=None),
        start_seq=first.start_seq,
        end_seq=max(t.end_seq for t in tallies),
    )


def with_inherited(attempts: Sequence[AttemptFacts]) -> tuple[AttemptFacts, ...]:
    """A start without a header of its own (a retry loop in the job script) has the one of its job, and the settings:
    they are printed before the line that tells the starts apart."""
    result: list[AttemptFacts] = []
    for attempt in attempts:
        if result and attempt.header == Header():
            before = result[-1]
            attempt = replace(
                attempt,
                header=before.header,
                stage_limits_s=attempt.stage_limits_s or before.stage_limits_s,
                config={**before.config, **attempt.config},
                env={**before.env, **attempt.env},
                launch_args=attempt.launch_args or before.launch_args,
                launch_args_exact=attempt.launch_args_exact or (not attempt.launch_args and before.launch_args_exact),
                rank_hosts={**before.rank_hosts, **attempt.rank_hosts},
                procs_per_node=attempt.procs_per_node or before.procs_per_node,
            )
        result.append(attempt)
    return tuple(result)


def _by_kind(facts: Sequence[Match], kinds: Mapping[str, str | None]) -> dict[str, list[Match]]:
    result: dict[str, list[Match]] = {}
    for fact in facts:
        result.setdefault(kinds.get(fact.rule) or "", []).append(fact)
    return result


def _first_known(maps: object) -> Mapping[str, str]:
    merged: dict[str, str] = {}
    for mapping in maps:  # type: ignore[attr-defined]
        for key, value in mapping.items():
            merged.setdefault(key, value)
    return merged


def _with_uncounted(match: Match, uncounted: Mapping[str, int]) -> Match:
    """Occurrences in a flood that nobody looked at are added to the first rank that showed the text."""
    extra = uncounted.get(match.rule, 0)
    if not extra:
        return match
    if isinstance(uncounted, dict):
        del uncounted[match.rule]
    return replace(match, count=match.count + extra)


def _merge_copies(matches: Sequence[Match]) -> list[Match]:
    """One match per rule and rank (and event, if training survived an earlier one): a Ray worker's file repeats what
    the driver's log shows already."""
    merged: dict[tuple[str, int | None, int | None, int | None], Match] = {}
    events = {(m.rule, m.rank, m.worker, m.first.file) for m in matches}
    single = len(events) == len(matches)
    for match in matches:
        key = (match.rule, match.rank, match.worker, None if single else match.step)
        known = merged.get(key)
        if known is None:
            merged[key] = match
        else:
            merged[key] = replace(
                known,
                count=max(known.count, match.count),
                last=match.last if match.last_seq > known.last_seq else known.last,
                last_seq=max(known.last_seq, match.last_seq),
                block=known.block or match.block,
                node=known.node or match.node,
                time=known.time if known.time is not None else match.time,
            )
    return list(merged.values())


def _header(raw: Mapping[str, str]) -> Header:
    def number(*names: str) -> int | None:
        text = next((raw[n] for n in names if n in raw), "")
        return int(text) if text.isdigit() else None

    args = raw.get("PASSTHROUGH_ARGS")
    if args is not None and len(args) >= 2 and args[0] == args[-1] == '"':
        args = args[1:-1]
    return Header(
        job_id=raw.get("JOB_ID"),
        job_name=raw.get("JOB_NAME"),
        nnodes=number("NNODES", "SLURM_JOB_NUM_NODES"),
        nodelist=raw.get("JOB_NODELIST", raw.get("SLURM_JOB_NODELIST")),
        coordinator_port=number("JAX_COORDINATOR_PORT"),
        ray_port=number("RAY_PORT"),
        passthrough_args=args,
        model_name=raw.get("MODEL_NAME"),
        model_alias=raw.get("MODEL_NAME_ALIAS"),
        exp_tag=raw.get("EXP_TAG"),
    )


def _launch_args(trace: str | None, header_args: str | None) -> tuple[tuple[str, ...], bool]:
    """(passthrough arguments, whether the split is exact). The traced line is shell-quoted, the header is not."""
    if trace is not None:
        try:
            words = shlex.split(trace)
        except ValueError:
            words = []
        if words:
            return tuple(words[words.index("--") + 1 :] if "--" in words else ()), True
    if header_args is None:
        return (), False
    ambiguous = any(c in header_args for c in "\"'\\")
    return tuple(header_args.split()), not ambiguous


def _stages(facts: Sequence[Match]) -> tuple[Stage, ...]:
    """One entry per stage: BEGIN opens it, the other banners close it. k8s and local logs have none."""
    stages: dict[str, Stage] = {}
    for fact in facts:
        name, result = fact.captures.get("name", ""), fact.captures.get("result", "")
        detail = fact.captures.get("detail", "")
        if result == "BEGIN":
            limit = _seconds(detail.removeprefix("timeout=")) if detail.startswith("timeout=") else None
            stages[name] = Stage(name, "running", limit_s=limit, seq=fact.seq)
            continue
        stage = stages.get(name, Stage(name, "running", seq=fact.seq))
        if result == "END":
            stages[name] = replace(stage, result="ok", elapsed_s=_seconds(detail))
        elif result == "TIMEOUT":
            elapsed, _, limit_text = detail.partition("/")
            stages[name] = replace(
                stage, result="timeout", elapsed_s=_seconds(elapsed), limit_s=_seconds(limit_text) or stage.limit_s
            )
        else:
            code_text, _, elapsed = detail.partition(", ")
            code = code_text.removeprefix("exit=")
            stages[name] = replace(
                stage, result="failed", exit_code=int(code) if code.isdigit() else None, elapsed_s=_seconds(elapsed)
            )
    return tuple(stages.values())


def _seconds(text: str) -> float | None:
    digits = text.strip().removesuffix("s")
    return float(digits) if digits.isdigit() else None


def _stage_limits(facts: Sequence[Match]) -> dict[str, float | None]:
    return {f.captures["name"]: _seconds(f.captures["limit"]) for f in facts if "name" in f.captures}


def _summary(fact: Match) -> Summary | None:
    captures = fact.captures
    if "result" not in captures or not captures.get("code", "").isdigit():
        return None
    nodes = captures.get("nodes", "")
    return Summary(
        success=captures["result"] == "SUCCESS",
        exit_code=int(captures["code"]),
        reason=captures.get("reason"),
        wall_s=parse_wall(captures.get("wall")),
        nodes=int(nodes) if nodes.isdigit() else None,
        seq=fact.seq,
    )


def _cancellation(fact: Match) -> Cancellation:
    captures = fact.captures
    cause = captures.get("cause")
    return Cancellation(
        kind=captures.get("kind", ""),
        target=captures.get("target", ""),
        host=captures.get("node", ""),
        at=captures.get("at", ""),
        cause=cause.upper() if cause else None,
        seq=fact.seq,
    )
