"""What is different from the last time this job worked?"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_triage.ledger.record import LedgerRecord
from slurm_triage.model.history import Difference, LastGood
from slurm_triage.model.nodelist import fold

#: Throughput of two healthy runs of one configuration differs by less (the seed calls 10 % a degradation).
_THROUGHPUT_CHANGE = 0.10
#: So many launch arguments that differ are named.
_MOST_ARGS = 8


def last_good(record: LedgerRecord, history: Iterable[LedgerRecord]) -> LastGood | None:
    """The latest completed, undegraded run before this one with the same job name, else of the same model by the same
    user. None if there is none."""
    began = record.start if record.start is not None else record.ended or 0.0
    good = [
        other
        for other in history
        if other.status == "completed"
        and not other.degraded
        and other.key != record.key
        and other.cluster == record.cluster
        and (other.ended or 0.0) <= began
        and (
            (record.name is not None and other.name == record.name)
            or (record.model is not None and other.model == record.model and other.user == record.user)
        )
    ]
    if not good:
        return None
    best = max(good, key=lambda other: (other.name == record.name, other.ended or 0.0))
    return LastGood(best.display_id, best.ended, best.report_path, tuple(differences(best, record)))


def differences(before: LedgerRecord, now: LedgerRecord) -> list[Difference]:
    """Only what differs, most telling first."""
    found = []
    gone, added = set(before.node_names) - set(now.node_names), set(now.node_names) - set(before.node_names)
    if gone or added:
        found.append(Difference("nodes", fold(gone) or None, fold(added) or None))
    for what, old, new in (
        ("node count", before.node_count, now.node_count),
        ("GPUs", before.gpus, now.gpus),
        ("image", before.image, now.image),
        ("partition", before.partition, now.partition),
        ("account", before.account, now.account),
        ("user", before.user, now.user),
        ("model", before.model, now.model),
    ):
        if old != new and old is not None and new is not None:
            found.append(Difference(what, str(old), str(new)))
    # Logs do not always show a version, and earlier records hold fewer: what one side lacks is no change.
    for name in sorted({*before.versions} & {*now.versions}):
        if before.versions[name] != now.versions[name]:
            found.append(Difference(name, before.versions[name], now.versions[name]))
    if before.args_digest and now.args_digest and before.args_digest != now.args_digest:
        known = {*before.args, *now.args} if before.args and now.args else set()
        names = sorted(name for name in known if before.args.get(name) != now.args.get(name))
        changed = f"other {', '.join(names[:_MOST_ARGS])}" if names else "changed"
        more = f" and {len(names) - _MOST_ARGS} more" if len(names) > _MOST_ARGS else ""
        found.append(Difference("launch arguments", "see its log", changed + more))
    if before.throughput and now.throughput and before.throughput_unit == now.throughput_unit:
        change = now.throughput / before.throughput - 1
        if abs(change) > _THROUGHPUT_CHANGE:
            unit = now.throughput_unit or ""
            found.append(
                Difference(
                    "throughput", f"{before.throughput:.4g} {unit}", f"{now.throughput:.4g} {unit} ({change:+.0%})"
                )
            )
    return found
