"""Fair order and limits: no user's flood of jobs keeps the others waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
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
    _queues: OrderedDict[Hashable, deque[Item]] = field(default_factory=OrderedDict)
    _buckets: dict[Hashable, _Bucket] = field(default_factory=dict)

    def put(self, user: Hashable, item: Item) -> None:
        self._queues.setdefault(user, deque()).append(item)

    def give_back(self, user: Hashable, item: Item) -> None:
        """It was taken and not used: it is the next one again, and has cost nothing."""
        self._queues.setdefault(user, deque()).appendleft(item)
        if user in self._buckets:
            self._buckets[user].tokens += 1.0

    def take(self, now: float, most: int = 1, among: int = 1) -> list[Item]:
        """Up to ``most`` next items of the next user who may have some now, but no more than one of ``among`` equal
        parts of what he has here; none if there is nobody."""
        for user, queue in self._queues.items():
            tokens = self._tokens(user, now)
            if tokens < 1.0:
                continue
            count = min(most, int(tokens), -(-len(queue) // among))
            self._buckets[user].tokens -= count
            taken = [queue.popleft() for _ in range(count)]
            if queue:
                self._queues.move_to_end(user)
            else:
                del self._queues[user]
            return taken
        return []

    def _tokens(self, user: Hashable, now: float) -> float:
        rate = self.per_minute / 60.0
        full = max(1.0, rate * _BURST_S)
        bucket = self._buckets.setdefault(user, _Bucket(full, now))
        bucket.tokens = min(full, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        return bucket.tokens

    def forget_idle(self, now: float) -> None:
        """Drop the accounts of users who have used nothing for a while."""
        for user in [u for u, b in self._buckets.items() if u not in self._queues and now - b.at > _BURST_S]:
            del self._buckets[user]
