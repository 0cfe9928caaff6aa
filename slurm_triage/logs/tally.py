"""What has been seen so far in one attempt: matches counted per rule and rank, single facts kept one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_triage.logs.steps import StepBook
from slurm_triage.model.facts import Match, Place

#: Text kept per place: enough to quote, small enough that a million ranks' worth of matches stays in memory.
MAX_TEXT_CHARS = 400
#: Facts kept one by one per attempt (stages, exits, checkpoints ...). A log that repeats them more often is hostile.
MAX_FACTS = 20_000
#: (rule, rank) pairs kept per attempt: four for each of 4096 ranks. Each costs a reader of a hostile log 0.4 ms.
MAX_MATCHES = 16_384
#: A message of several lines that comes again after this many further steps is another event: training survived the
#: first. Two steps may be printed late.
NEW_EVENT_STEPS = 3
#: Such events kept per attempt; a loop that logs its exceptions has one per step.
MAX_EARLIER = 1_000
#: A clock that jumps further ahead is another's: a program that prints a date of its build, a machine set right after
#: its start. No job is silent for as long as that.
_LONGEST_SILENCE_S = 30 * 86_400.0


@dataclass(slots=True)
class Tally:
    """Counts of one rule by one rank."""

    first: Match
    count: int
    last: Place
    last_seq: int
    last_time: float | None
    last_step: int | None = None

    def frozen(self) -> Match:
        first = self.first
        return Match(
            rule=first.rule,
            rank=first.rank,
            node=first.node,
            count=self.count,
            first=first.first,
            last=self.last,
            seq=first.seq,
            last_seq=self.last_seq,
            step=first.step,
            time=first.time,
            last_time=self.last_time,
            captures=first.captures,
            block=first.block,
            body=first.body,
            worker=first.worker,
            source=first.source,
        )


@dataclass(slots=True)
class AttemptTally:
    """One attempt in one file."""

    start_seq: int
    header: dict[str, str] = field(default_factory=dict)
    matches: dict[tuple[str, int | None, int | None], Tally] = field(default_factory=dict)
    earlier: list[Tally] = field(default_factory=list)
    """Events that training survived, of rules that came again later."""
    uncounted: dict[str, int] = field(default_factory=dict)
    """Matches of flooding rules that were counted but not looked at."""
    facts: list[Match] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    config_rank: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    launch_trace: str | None = None
    rank_hosts: dict[int, str] = field(default_factory=dict)
    procs_per_node: int | None = None
    steps: StepBook = field(default_factory=StepBook)
    first_time: float | None = None
    last_time: float | None = None
    end_seq: int = 0
    requeued: bool = False
    """Slurm took the job back: whatever starts next is another attempt."""
    exited: bool = False
    """A task ended: training that starts from the beginning is another attempt."""

    @property
    def is_empty(self) -> bool:
        return not (self.matches or self.facts or self.steps or self.header)

    def saw_time(self, moment: float | None) -> None:
        if moment is None:
            return
        if self.first_time is None or (self.last_time is not None and moment > self.last_time + _LONGEST_SILENCE_S):
            self.first_time = moment
        if self.last_time is None or moment > self.last_time:
            self.last_time = moment

    def is_new_event(self, rule_id: str, rank: int | None, worker: int | None, step: int | None) -> bool:
        """Whether a message of several lines is to be kept as an event of its own."""
        tally = self.matches.get((rule_id, rank, worker))
        if tally is None:
            return True
        if step is None or len(self.earlier) >= MAX_EARLIER:
            return False
        return step - (tally.last_step if tally.last_step is not None else -1) >= NEW_EVENT_STEPS

    def count(self, match: Match) -> None:
        key = (match.rule, match.rank, match.worker)
        tally = self.matches.get(key)
        if tally is not None and match.block and self.is_new_event(*key, match.step):
            self.earlier.append(tally)
            self.matches[key] = Tally(match, 1, match.first, match.seq, match.time, match.step)
        elif tally is not None:
            if tally.first.source and not match.source:
                # What the exception says stands below the program text that raised it, which has the words in braces.
                tally.first = match
            tally.count += 1
            tally.last = match.first
            tally.last_seq = match.seq
            tally.last_time = match.time if match.time is not None else tally.last_time
            tally.last_step = match.step if match.step is not None else tally.last_step
        elif len(self.matches) < MAX_MATCHES:
            self.matches[key] = Tally(match, 1, match.first, match.seq, match.time, match.step)
        else:
            self.uncounted[match.rule] = self.uncounted.get(match.rule, 0) + 1

    def add_fact(self, match: Match) -> None:
        if len(self.facts) < MAX_FACTS:
            self.facts.append(match)
