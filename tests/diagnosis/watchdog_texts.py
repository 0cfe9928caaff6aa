"""What the ranks of a PyTorch job print when a collective does not complete (ProcessGroupNCCL, 2.1 to 2.9)."""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT = "PG ID 0 PG GUID 0(default_pg)"
TIMEOUT_MS = 600_000


def label(rank: int, tasks_per_node: int | None) -> str:
    """``srun -l``: every rank a task (1), one torchrun per node (n), or no labels (None)."""
    return "" if tasks_per_node is None else f"{rank // tasks_per_node}: "


def _line(rank: int, place: int, text: str, per_node: int | None, prefixed: bool) -> str:
    own = f"[rank{rank}]:" if prefixed else ""
    return f"{label(rank, per_node)}{own}[E813 12:25:30.{69_000 + rank:06}133 ProcessGroupNCCL.cpp:{place}] {text}\n"


def timed_out(
    rank: int,
    seq: int,
    op: str = "ALLREDUCE",
    numel: int = 1_048_576,
    *,
    group: str | None = DEFAULT,
    group_rank: int | None = None,
    per_node: int | None = 1,
    prefixed: bool = True,
    enqueued: int | None = None,
) -> str:
    """The watchdog's line, and (2.4 and later: ``group``) the one behind it that names the process group."""
    inner = rank if group_rank is None else group_rank
    text = (
        f"[Rank {inner}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, "
        f"NumelOut={numel}, Timeout(ms)={TIMEOUT_MS}) ran for {TIMEOUT_MS + 27} milliseconds before timing out."
    )
    lines = _line(rank, 632, text, per_node, prefixed)
    if group is not None:
        status = (
            f"[{group} Rank {inner}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued "
            f"work: {seq + 2 if enqueued is None else enqueued}, last completed work: {seq - 1}"
        )
        lines += _line(rank, 2271, status, per_node, prefixed)
    return lines


def told(rank: int, enqueued: int, *, group: str = DEFAULT, per_node: int | None = 1) -> str:
    """A rank without a time-out of its own is told by another one to say how far it had come."""
    text = (
        f"[{group} Rank {rank}] Received a dump signal due to a collective timeout from  rank 0 and we will try our best "
        f"to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.This is most "
        "likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks"
    )
    return _line(rank, 1870, text, per_node, True)


def steps(count: int, ranks: Iterable[int], per_node: int | None = 1) -> str:
    """Steps of a plain training loop, each rank its own."""
    shown = sorted({rank if per_node is None else rank // per_node for rank in ranks})
    return "".join(
        f"{'' if per_node is None else f'{rank}: '}step {n}/400 | loss 3.9{n % 10}\n"
        for n in range(count)
        for rank in (shown if per_node is not None else shown[:1])
    )
