"""What one pass over the logs of a job found: matches, steps, exits, stages. No opinion yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands. ``file`` indexes ``JobFiles.logs``; ``offset`` is in bytes of that file.

    ``text`` is the line's body: label, ANSI and Ray prefix removed, cut at 400 characters.
    ``line`` counts from 1; None where counting was not possible.
    """

    file: int
    offset: int
    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """All matches of one rule by one rank in one attempt; a message of several lines that comes again after training
    went on is a match of its own.

    ``step`` is the last step that this rank (any rank, if it printed none) had logged before the first match,
    None before any step. ``time`` is the wall clock (epoch seconds) of the first match when its line, or an earlier
    line of the same rank within the same window, carried one. ``seq`` orders matches over all files of the attempt.
    """

    rule: str
    rank: int | None
    node: str | None
    count: int
    first: Place
    last: Place
    seq: int
    last_seq: int
    step: int | None = None
    time: float | None = None
    last_time: float | None = None
    captures: Mapping[str, str] = field(default_factory=dict)
    block: tuple[str, ...] = ()
    """The lines of the same rank that follow the first match (as many as the rule asks for), without prefixes."""
    body: str = ""
    """The first match's line without clock and rank prefixes, to compare with lines of a block."""
    worker: int | None = None
    """The global rank that the line itself names: torchrun runs several workers in one task (``rank``)."""
    source: bool = False
    """The first match is a line of program text that a traceback shows, not what the program said."""


@dataclass(frozen=True, slots=True)
class Header:
    """The launcher's KEY=VALUE header."""

    job_id: str | None = None
    job_name: str | None = None
    nnodes: int | None = None
    nodelist: str | None = None
    coordinator_port: int | None = None
    ray_port: int | None = None
    passthrough_args: str | None = None
    model_name: str | None = None
    model_alias: str | None = None
    exp_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the launcher. ``result``: running | ok | timeout | failed."""

    name: str
    result: str
    elapsed_s: float | None = None
    limit_s: float | None = None
    exit_code: int | None = None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How one rank ended, from NODE_EXIT, srun or torchrun lines.

    ``code`` is the printed number; ``signal`` the decoded signal, if any. ``victim`` is True for ranks that were
    stopped because another one failed first. ``origin``: node_exit | srun | train_rc | torchrun | ray.
    """

    rank: int | None
    host: str | None
    code: int | None
    signal: int | None
    victim: bool
    origin: str
    text: str
    seq: int
    first_bad: bool = False
    """True for the first exit in the log that is neither 0 nor a victim's."""
    place: Place | None = None
    worker: int | None = None
    """Global rank of the worker that torchrun blames, where ``rank`` counts tasks."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One JOB SUMMARY block."""

    success: bool
    exit_code: int
    reason: str | None
    wall_s: float | None
    nodes: int | None
    seq: int


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A ``*** JOB|STEP ... CANCELLED AT ...`` line. ``cause`` is the text after DUE TO, upper case."""

    kind: str
    target: str
    host: str
    at: str
    cause: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Step:
    """One completed step: ``seconds`` it took, ``rate`` in the dialect's unit, ``loss`` (may be nan)."""

    step: int
    seconds: float | None
    rate: float | None
    loss: float | None
    time: float | None
    seq: int


@dataclass(frozen=True, slots=True)
class StepSeries:
    """Steps of one rank, in log order, one entry per step (slowest of several processes kept).

    ``file`` indexes JobFiles.logs; ``dialect`` names the step rule; ``unit`` the unit of ``rate``.
    ``printed_total`` is the number of steps the line itself announces ("step 5/100"), if it does.
    Series other than the reference may hold only the first and the last step (``sparse``).
    """

    rank: int | None
    file: int
    dialect: str
    unit: str
    steps: tuple[Step, ...]
    sparse: bool = False
    printed_total: int | None = None
    higher_is_better: bool = True
    dropped_steps: int = 0
    dropped_s: float = 0.0
    """Steps, and the sum of their seconds, that were read but not kept (very long or sparse series)."""

    @property
    def first_step(self) -> int | None:
        return self.steps[0].step if self.steps else None

    @property
    def last_step(self) -> int | None:
        return max((s.step for s in self.steps), default=None)


@dataclass(frozen=True, slots=True)
class RankTail:
    """The last words of one rank. ``time``: of the last line that carries its label; ``said_at``: of the words."""

    rank: int | None
    text: str
    seq: int
    time: float | None
    said_at: float | None = None


@dataclass(frozen=True, slots=True)
class TellingLine:
    """A line that looks like trouble although no rule knows it. ``score``: how much, compared with others.
    ``body``: the line without clock and rank."""

    place: Place
    rank: int | None
    node: str | None
    seq: int
    score: int
    body: str = ""


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """Facts of one attempt (one start of the job) in log order."""

    index: int
    header: Header = Header()
    matches: tuple[Match, ...] = ()
    facts: tuple[Match, ...] = ()
    """Matches of rules with class ``fact`` that the folders below did not consume (dashboards, hints)."""
    stages: tuple[Stage, ...] = ()
    stage_limits_s: Mapping[str, float | None] = field(default_factory=dict)
    exits: tuple[ExitRecord, ...] = ()
    summaries: tuple[Summary, ...] = ()
    cancellations: tuple[Cancellation, ...] = ()
    series: tuple[StepSeries, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    """``Config param`` values of the lowest rank."""
    env: Mapping[str, str] = field(default_factory=dict)
    """A few named environment variables from the launcher's dump (never the whole dump)."""
    launch_args: tuple[str, ...] = ()
    """Passthrough arguments, correctly split, from the traced command line; else from the header."""
    launch_args_exact: bool = False
    rank_hosts: Mapping[int, str] = field(default_factory=dict)
    exit_hosts: Mapping[int, str] = field(default_factory=dict)
    """Where ranks ended, by the lines that report it. They tell where something was printed; they accuse no node."""
    several_per_node: bool = False
    """A rank's number is not its node's place in the node list."""
    procs_per_node: int | None = None
    tails: tuple[RankTail, ...] = ()
    telling: tuple[TellingLine, ...] = ()
    usual_seq: Mapping[int, int] = field(default_factory=dict)
    """Per file the place from which on, as far as its last lines tell, the log goes on as usual; -1 if it does not."""
    quiet_seq: Mapping[int, int] = field(default_factory=dict)
    """Per file the place from which on hardly an ordinary line follows."""
    ends_mid_line: bool = False
    """The job's log stops in the middle of a line: its writer was killed at that moment, or the file was cut."""
    start_time: float | None = None
    end_time: float | None = None
    """Wall clock of the first and last line that carried one."""
    start_seq: int = 0
    end_seq: int = 0

    def of(self, *rule_ids: str) -> tuple[Match, ...]:
        """Matches and facts of the named rules."""
        wanted = set(rule_ids)
        return tuple(m for m in (*self.matches, *self.facts) if m.rule in wanted)


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts of all attempts found in the logs of one job; the last one decides."""

    attempts: tuple[AttemptFacts, ...] = ()
    bytes_scanned: int = 0
    size_bytes: int = 0
    truncated: bool = False
    """True when a limit (time, bytes) stopped the reading before the end."""
    binary: bool = False
    """True when most of the bytes are not text."""
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> AttemptFacts:
        return self.attempts[-1] if self.attempts else AttemptFacts(index=0)


NO_FACTS = LogFacts()
