"""One pass over one file: windows of bytes in, tallies per attempt out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurm_triage.logs.clock import Clock
from slurm_triage.logs.labels import detect
from slurm_triage.logs.line import NO_LABELS, LabelFormat, Line, parse
from slurm_triage.logs.neighbours import following, shows_source
from slurm_triage.logs.step_lines import FoundStep, StepCursor, StepFinder
from slurm_triage.logs.tally import MAX_TEXT_CHARS, AttemptTally
from slurm_triage.logs.windows import Window
from slurm_triage.logs.wrapped import cut_lines, has_long_line
from slurm_triage.model.facts import Match, Place
from slurm_triage.model.rule import FACT, HARMLESS, Rule, RuleSet
from slurm_triage.rules.matcher import Hits, Matcher
from slurm_triage.rules.select import body_verdict

#: Matches of one rule that are looked at in one window, from its start and from its end; the rest is only counted.
#: A rule that fires more often than this in 8 MiB says nothing new, and 4096 ranks can still each say it once.
FLOOD_FIRST, FLOOD_LAST = 4096, 512
#: Matches of a harmless rule by one rank after which further ones are only counted.
FAMILIAR_COUNT = 16
#: Lines are counted up to here. Beyond, a byte offset finds the place faster (tail -c +N), and counting costs a third
#: of the scan's speed.
COUNT_LINES_BYTES = 64 << 20
#: Where the first rank's label is looked for.
_LABELS_BEGIN_BYTES = 256 << 10
#: How far back a line's start, and ahead its end, is looked for. Longer lines are cut around the match.
_MAX_LINE_BYTES = 64 << 10
#: Starts kept of one file: the first few and the last. Each is explained for itself, and whatever restarts more often
#: than that (Slurm's own limit, max_batch_requeue, is 5) does so in a loop.
MAX_ATTEMPTS, _FIRST_ATTEMPTS = 64, 8
#: Workers that print behind one label are this much apart at most when another task ends.
_LAG_STEPS = 2
#: Kinds of facts that tell how a task ended. A script may start its program again.
_EXITS = frozenset({"torchrun_exit", "srun_exit", "node_exit"})
#: Kinds of facts that the launcher's batch script prints, which has no rank label where tasks have one.
_BATCH_ONLY = frozenset({"quoted_begin", "stage", "stage_limit", "summary"})


@dataclass(frozen=True, slots=True)
class _Spot:
    """A physical (or re-joined) line with the rules that matched on it."""

    start: int
    raw: bytes
    end: int
    rules: tuple[int, ...]


class FileScan:
    """State that outlives a window: labels, clock, attempts, steps so far."""

    def __init__(
        self,
        ruleset: RuleSet,
        matcher: Matcher,
        file: int,
        seq_base: int,
        latest: float | None,
        default_node: str | None,
    ) -> None:
        self._rules = ruleset.rules
        self._matcher = matcher
        self._plain_harmless = frozenset(
            i for i, r in enumerate(ruleset.rules) if r.cls == HARMLESS and not (r.verify or r.unless or r.block_lines)
        )
        self._file = file
        self._seq_base = seq_base
        self.clock = Clock(latest)
        self._finder = StepFinder(ruleset.dialects, self.clock.read)
        self._default_node = default_node
        self._labels: LabelFormat | None = None
        self._cursor = StepCursor()
        self._quoted = False
        self._line_base = 1
        self._last_rank_time: dict[int | None, float] = {}
        self.attempts: list[AttemptTally] = [AttemptTally(seq_base)]
        self.attempts_dropped = 0
        self.tail: bytes = b""
        self.head: bytes = b""
        self.bytes_scanned = 0
        self.control_bytes = 0
        self.quoted_until = 0
        """Offset behind which nothing is quoted by the launcher any more."""

    @property
    def labels(self) -> LabelFormat:
        return self._labels or NO_LABELS

    @property
    def lines(self) -> int | None:
        """Number of the line behind the last newline read, from 1; None where lines were not counted."""
        return self._line_base if self.bytes_scanned < COUNT_LINES_BYTES else None

    @property
    def attempt(self) -> AttemptTally:
        return self.attempts[-1]

    def window(self, window: Window) -> None:
        """Take in one window."""
        data, end, emit_to = window.data, window.end, window.emit_to
        if window.base == 0:
            self.head = bytes(data[: min(end, 64 << 10)])
        if self._labels is None or (self._labels.width is None and window.base < _LABELS_BEGIN_BYTES):
            # A log that grows may begin with the batch script's words alone.
            self._labels = detect(bytes(data[: min(end, _LABELS_BEGIN_BYTES)]))
        hits = self._matcher.scan(data, end)
        steps = self._finder.find(data, emit_to, hits.dialects, self.labels) if hits.dialects else []
        taken = 0
        counted_to, lines_before, counting = 0, 0, window.base < COUNT_LINES_BYTES
        for spot in self._spots(data, end, emit_to, hits):
            taken = self._take_steps(spot.start, window.base, steps, taken)
            if counting:
                lines_before += data.count(b"\n", counted_to, spot.start)
                counted_to = spot.start
            if self._counted_only(spot, window.base):
                continue
            self._take_line(spot, data, end, window.base, self._line_base + lines_before if counting else None)
        self._take_steps(emit_to, window.base, steps, taken)
        if counting:
            self._line_base += lines_before + data.count(b"\n", counted_to, emit_to)
        self.bytes_scanned = window.base + emit_to
        self.attempt.end_seq = self._seq_base + self.bytes_scanned
        if window.eof:
            self.tail = bytes(data[max(0, end - (1 << 20)) : end])
        if window.base == 0:
            sample = data[: min(end, 64 << 10)]
            self.control_bytes = sum(sample.count(bytes([c])) for c in (*range(1, 8), *range(14, 27)))

    def _spots(self, data: bytearray, end: int, emit_to: int, hits: Hits) -> Iterator[_Spot]:
        """Lines with matches, in order, without those that a later window will see again."""
        by_line: dict[int, list[int]] = {}
        per_rule: dict[int, list[int]] = {}
        for rule, match_end in zip(hits.rules, hits.ends, strict=True):
            per_rule.setdefault(rule, []).append(match_end)
        for rule, ends in per_rule.items():
            if len(ends) > FLOOD_FIRST + FLOOD_LAST:
                self._only_count(rule, sum(1 for e in ends[FLOOD_FIRST:-FLOOD_LAST] if e <= emit_to))
                ends = ends[:FLOOD_FIRST] + ends[-FLOOD_LAST:]
            previous = -1
            for match_end in ends:
                start = data.rfind(b"\n", max(0, match_end - _MAX_LINE_BYTES), match_end) + 1
                if start == 0 and match_end > _MAX_LINE_BYTES:
                    start = match_end - _MAX_LINE_BYTES
                if start < emit_to and start != previous:
                    by_line.setdefault(start, []).append(rule)
                    previous = start
        for rule, count in hits.unlisted.items():
            self._only_count(rule, count)
        joined = dict(cut_lines(data, end, self.labels)) if has_long_line(data, end, self.labels) else {}
        for start, raw in joined.items():
            if start < emit_to:
                more = self._matcher.scan(raw)
                rules = by_line.setdefault(start, [])
                rules.extend(r for r in more.rules if r not in rules)
        for start in sorted(by_line):
            if not by_line[start]:
                continue
            newline = data.find(b"\n", start, min(end, start + _MAX_LINE_BYTES))
            line_end = newline if newline >= 0 else min(end, start + _MAX_LINE_BYTES)
            raw = joined.get(start) or bytes(data[start:line_end])
            yield _Spot(start, raw, line_end, tuple(dict.fromkeys(by_line[start])))

    def _counted_only(self, spot: _Spot, base: int) -> bool:
        """A harmless line that this rank has printed often before is counted, not taken apart (30 us each)."""
        if self._quoted or any(rule not in self._plain_harmless for rule in spot.rules):
            return False
        rank, _ = self.labels.split(spot.raw[:16])
        tallies = [self.attempt.matches.get((self._rules[rule].id, rank, None)) for rule in spot.rules]
        if any(tally is None or tally.count < FAMILIAR_COUNT for tally in tallies):
            return False
        for tally in tallies:
            if tally is not None:
                tally.count += 1
                tally.last_seq = self._seq_base + base + spot.start
        return True

    def _only_count(self, rule: int, count: int) -> None:
        if count and self._rules[rule].cls != FACT:
            name = self._rules[rule].id
            self.attempt.uncounted[name] = self.attempt.uncounted.get(name, 0) + count

    def _take_steps(self, before: int, base: int, steps: list[FoundStep], taken: int) -> int:
        """Store the step lines before an offset; returns how many are stored by now."""
        while taken < len(steps) and steps[taken].offset <= before:
            step = steps[taken]
            taken += 1
            if self._quoted:
                continue
            self._step_boundary(step, base + step.offset)
            self._cursor.take(step)
            seq = self._seq_base + base + step.offset
            self.attempt.steps.put(step.dialect, step.rank, step.values, step.time, seq, full=step.full)
            if step.time is not None:
                self._last_rank_time[step.rank] = step.time
                self.attempt.saw_time(step.time)
        return taken

    def _step_boundary(self, step: FoundStep, offset: int) -> None:
        if not self.attempt.requeued and not self.attempt.exited:
            return
        last = self.attempt.steps.last_step(step.dialect, step.rank)
        again = last is not None and step.step < last - _LAG_STEPS
        if again or (self.attempt.requeued and (last is None or step.step <= last)):
            self._new_attempt(offset)

    def _new_attempt(self, offset: int) -> None:
        if self.attempt.is_empty:
            return
        self.attempts.append(AttemptTally(self._seq_base + offset))
        if len(self.attempts) > MAX_ATTEMPTS:
            del self.attempts[_FIRST_ATTEMPTS]
            self.attempts_dropped += 1
        self._cursor.reset()
        self._quoted = False

    def _take_line(self, spot: _Spot, data: bytearray, end: int, base: int, line_number: int | None) -> None:
        for raw, shift in _segments(spot.raw):
            line = parse(raw, self.labels) if shift == 0 else self._continued(spot.raw, raw)
            self._take_text(spot, line, shift, data, end, base, line_number)

    def _continued(self, whole: bytes, raw: bytes) -> Line:
        """A later part of a progress-bar line: it has the rank of the whole line."""
        rank, _ = self.labels.split(whole)
        line = parse(raw, NO_LABELS)
        return line if rank is None else Line(rank, line.text, line.body, line.is_echo, line.inner_rank, line.host)

    def _take_text(
        self, spot: _Spot, line: Line, shift: int, data: bytearray, end: int, base: int, line_number: int | None
    ) -> None:
        moment = None if self._quoted else self.clock.read(line.text)
        self.attempt.saw_time(moment)
        if moment is not None:
            self._last_rank_time[line.rank] = moment
        accepted: list[tuple[Rule, Mapping[str, str], tuple[str, ...]]] = []
        for index in spot.rules:
            rule = self._rules[index]
            if (line.is_echo and not rule.on_echo) or (self._quoted and rule.fact != "quoted_end"):
                continue
            block = self._block(rule, line, spot, data, end)
            verdict = body_verdict(rule, line.body, block)
            if verdict is not None:
                accepted.append((rule, verdict, block))
        top = max((r.priority for r, _, _ in accepted if r.cls != FACT), default=0)
        for rule, captures, block in accepted:
            if rule.cls != FACT and rule.priority < top:
                continue
            offset = base + spot.start + shift
            place = Place(self._file, offset, line.text[:MAX_TEXT_CHARS], line_number)
            step = self._cursor.before(line.rank)
            match = Match(
                rule=rule.id,
                rank=line.rank,
                node=captures.get("node") or line.host or self._default_node,
                count=1,
                first=place,
                last=place,
                seq=self._seq_base + offset,
                last_seq=self._seq_base + offset,
                step=step,
                time=moment if moment is not None else self._last_rank_time.get(line.rank),
                last_time=moment,
                captures=captures,
                block=block,
                body=line.body[:MAX_TEXT_CHARS],
                worker=self._worker(rule, line),
                source=self._is_source(rule, line, data, spot.start),
            )
            if rule.cls == FACT:
                self._fact(rule, match, line)
            else:
                self.attempt.count(match)

    def _block(self, rule: Rule, line: Line, spot: _Spot, data: bytearray, end: int) -> tuple[str, ...]:
        if not rule.block_lines:
            return ()
        key = (rule.id, line.rank, self._worker(rule, line))
        if rule.fact is None and not self.attempt.is_new_event(*key, self._cursor.before(line.rank)):
            return ()
        return tuple(following(data, spot.end, end, line, self.labels, rule.block_lines))

    def _is_source(self, rule: Rule, line: Line, data: bytearray, start: int) -> bool:
        """Whether only program text shows it so far; what follows a spoken line need not be looked at again."""
        if rule.cls in {FACT, HARMLESS}:
            return False
        known = self.attempt.matches.get((rule.id, line.rank, self._worker(rule, line)))
        return (known is None or known.first.source) and shows_source(data, start, line, self.labels)

    def _worker(self, rule: Rule, line: Line) -> int | None:
        """Behind one label several workers may fail, each in its own way. Harmless lines are only counted."""
        return line.inner_rank if rule.cls != HARMLESS else None

    def _fact(self, rule: Rule, match: Match, line: Line) -> None:
        """Facts that change the state of the scan, or would be too many to keep, are dealt with here."""
        kind, attempt, captures = rule.fact, self.attempt, match.captures
        if self._is_forged(kind, captures, line):
            return
        if kind == "quoted_begin":
            self._quoted = True
        elif kind == "quoted_end":
            self._quoted = False
            self.quoted_until = match.first.offset
        elif kind == "header":
            self._header(match, line)
        elif kind == "config":
            if self._cursor.has(line.rank):
                # Settings are printed before the first step; what looks like one later is text of the program.
                return
            if attempt.config_rank is None or line.rank is None or line.rank <= attempt.config_rank:
                if line.rank is not None and attempt.config_rank is not None and line.rank < attempt.config_rank:
                    attempt.config.clear()
                attempt.config[captures["key"]] = captures["value"]
                attempt.config_rank = line.rank if line.rank is not None else attempt.config_rank
        elif kind == "env":
            attempt.env.setdefault(captures["key"], captures["value"])
            if captures["key"] == "SLURM_RESTART_COUNT" and captures["value"] not in {"0", ""} and attempt.requeued:
                self._new_attempt(match.first.offset)
        elif kind == "launch_trace":
            attempt.launch_trace = attempt.launch_trace or captures.get("value")
        elif kind == "rank_host":
            if line.rank is not None and "node" in captures:
                attempt.rank_hosts.setdefault(line.rank, captures["node"])
        elif kind == "procs_per_node":
            attempt.procs_per_node = int(captures["count"])
        elif kind == "attempt_start":
            self._new_attempt(match.first.offset)
            self.attempt.add_fact(match)
        elif kind in {"announced_steps", "launcher_start"}:
            if attempt.exited and attempt.steps:
                self._new_attempt(match.first.offset)
            if kind == "announced_steps":
                self.attempt.add_fact(match)
        elif kind in {"restore", "fresh_start", "program_start"}:
            if attempt.steps and self._cursor.has(line.rank):
                self._new_attempt(match.first.offset)
            if kind != "program_start":
                self.attempt.add_fact(match)
        else:
            attempt.exited = attempt.exited or kind in _EXITS
            if kind == "cancel" and captures.get("kind") == "JOB":
                cause = (captures.get("cause") or "").upper()
                attempt.requeued = any(word in cause for word in ("PREEMPT", "REQUEUE", "NODE FAIL"))
            attempt.add_fact(match)

    def _is_forged(self, kind: str | None, captures: Mapping[str, str], line: Line) -> bool:
        """What only the batch script and Slurm print, behind the label of a task: a task that shows another log, or
        that wants to be taken for them. (Slurm labels its STEP lines as rank 0's.)"""
        labelled = self.labels.width is not None and line.rank is not None and line.inner_rank is None
        if kind == "quoted_begin" and self.labels.width is not None and self.attempt.steps:
            return True
        return labelled and (kind in _BATCH_ONLY or (kind == "cancel" and captures.get("kind") == "JOB"))

    def _header(self, match: Match, line: Line) -> None:
        key, value = match.captures["key"], match.captures["value"]
        if line.rank is not None:
            return
        header = self.attempt.header
        ran = bool(self.attempt.steps or self.attempt.facts)
        if key == "JOB_ID" and header.get("JOB_ID") == value and value.isdigit() and ran:
            # A requeued job may append to the same file; every start prints the header again.
            self._new_attempt(match.first.offset)
            header = self.attempt.header
        header.setdefault(key, value)


def _segments(raw: bytes) -> Iterator[tuple[bytes, int]]:
    """The parts of a line between carriage returns (progress bars), with their offsets."""
    if b"\r" not in raw.rstrip(b"\r"):
        yield raw, 0
        return
    position = 0
    for part in raw.split(b"\r"):
        if part.strip():
            yield part, position
        position += len(part) + 1
