"""What is known of other jobs that bears on one: the same failure before, an outbreak, the last good run, bad nodes."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_triage.model.duration import human, iso
from slurm_triage.model.nodelist import fold


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The same failure, ``nth`` time (this one included; ``at_least``: or more) within ``span_s`` seconds.
    ``previous``: job ids, latest first. ``same_nodes``: nodes of this job that also took part in every earlier one;
    ``all_nodes``: these are all the nodes that any of them had. ``same_culprit``: nodes that were the failing one now
    and before."""

    nth: int
    span_s: float
    previous: tuple[str, ...]
    same_nodes: tuple[str, ...]
    all_nodes: bool
    same_culprit: tuple[str, ...]
    at_least: bool = False

    @property
    def sentence(self) -> str:
        nth = f"at least the {ordinal(self.nth)}" if self.at_least else ordinal(self.nth)
        text = f"Same failure as job {self.previous[0]}, {nth} time in {human(self.span_s)}"
        if self.same_culprit:
            return f"{text}, again on {fold(self.same_culprit)}."
        if self.same_nodes:
            where = f"on {fold(self.same_nodes)}" if self.all_nodes else f"with {fold(self.same_nodes)} among the nodes"
            return f"{text}, each time {where}."
        return f"{text}, on different nodes."


@dataclass(frozen=True, slots=True)
class Shared:
    """What ``jobs`` of the jobs of an outbreak have in common more than chance explains: node chi2803, 6."""

    what: str
    value: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Outbreak:
    """One failure in many jobs within an hour (``at_least``: perhaps in more than are counted here). ``first``,
    ``last``: when they ended, epoch seconds."""

    fingerprint: str
    cls: str | None
    jobs: tuple[str, ...]
    users: int
    first: float
    last: float
    shared: tuple[Shared, ...]
    at_least: bool = False

    @property
    def sentence(self) -> str:
        users = "one user" if self.users == 1 else f"{self.users} users"
        count = f"at least {len(self.jobs)}" if self.at_least else len(self.jobs)
        text = f"{self.cls or 'The same failure'} hit {count} jobs of {users} within "
        text += human(max(60.0, self.last - self.first))
        values: dict[tuple[str, int], list[str]] = {}
        for one in self.shared:
            values.setdefault((one.what, one.jobs), []).append(one.value)
        common = ", ".join(
            f"{what} {fold(names) if what == 'node' else ' and '.join(names)} ({jobs})"
            for (what, jobs), names in values.items()
        )
        return f"{text}; in common: {common}." if common else f"{text}; they have nothing in common that others lack."


@dataclass(frozen=True, slots=True)
class Difference:
    """``before`` and ``now`` as texts for people; None where one side has nothing."""

    what: str
    before: str | None
    now: str | None

    @property
    def sentence(self) -> str:
        """``image img:1 -> img:2``; ``nodes without chi2801, with chi2805``."""
        if self.what == "nodes":
            parts = [f"without {self.before}" if self.before else "", f"with {self.now}" if self.now else ""]
            return "nodes " + ", ".join(part for part in parts if part)
        return f"{self.what} {self.before or 'unknown'} -> {self.now or 'unknown'}"


@dataclass(frozen=True, slots=True)
class LastGood:
    """The last good run, and how this one differs from it. ``report_path`` leads to its arguments."""

    job_id: str
    ended: float | None
    report_path: str | None
    differences: tuple[Difference, ...]

    @property
    def sentence(self) -> str:
        if not self.differences:
            return f"Nothing that is recorded changed since job {self.job_id}, which worked."
        changes = "; ".join(difference.sentence for difference in self.differences)
        return f"Changed since job {self.job_id}, which worked: {changes}."


@dataclass(frozen=True, slots=True)
class Advice:
    """Keep away from ``node`` until ``expires`` (epoch seconds) or until it finishes a job cleanly."""

    node: str
    why: str
    expires: float
    evidence: str
    """``direct``: the node was seen to fail. ``statistics``: it fails too often to be chance."""

    @property
    def sentence(self) -> str:
        return f"Keep away from {self.node} until {iso(self.expires)} or its next clean run: {self.why}."


@dataclass(frozen=True, slots=True)
class History:
    """``advice``: for nodes of this job only."""

    recurrence: Recurrence | None = None
    outbreak: Outbreak | None = None
    last_good: LastGood | None = None
    advice: tuple[Advice, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        known = (self.recurrence, self.outbreak, self.last_good, *self.advice)
        return tuple(item.sentence for item in known if item is not None)


NO_HISTORY = History()


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
