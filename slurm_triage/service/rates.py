"""Fair order and limits: no user's flood of jobs keeps the others waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: Unused budget that a user can save up, in seconds of his rate.
_BURST_S = 60.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class FairQueue(Generic[Item]):
    """Items by user, taken in turns; each user at most ``per_minute``. Times are monotonic seconds."""

    per_minute: float
    _queues: OrderedDict[str, deque[Item]] = field(default_factory=OrderedDict)
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def put(self, user: str, item: Item) -> None:
        self._queues.setdefault(user, deque()).append(item)

    def take(self, now: float) -> Item | None:
        """The next item whose user may have one now, or None."""
        for user in list(self._queues):
            if not self._may(user, now):
                continue
            queue = self._queues[user]
            item = queue.popleft()
            if queue:
                self._queues.move_to_end(user)
            else:
                del self._queues[user]
            self._buckets[user].tokens -= 1.0
            return item
        return None

    def _may(self, user: str, now: float) -> bool:
        rate = self.per_minute / 60.0
        full = max(1.0, rate * _BURST_S)
        bucket = self._buckets.setdefault(user, _Bucket(full, now))
        bucket.tokens = min(full, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        return bucket.tokens >= 1.0

    def forget_idle(self, now: float) -> None:
        """Drop the accounts of users who have used nothing for a while."""
        for user in [u for u, b in self._buckets.items() if u not in self._queues and now - b.at > _BURST_S]:
            del self._buckets[user]
