"""Fair order and limits: no user's flood of jobs keeps the others waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: Unused budget that a user can save up, in seconds of his rate.
_BURST_S = 60.0
#: What a user's jobs have taken of our time counts half after this.
_HALF_LIFE_S = 60.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float
    used_s: float = 0.0


@dataclass(slots=True)
class FairQueue(Generic[Item]):
    """Items by user; whose items took the least time lately is next, among equals in turns; each user at most
    ``per_minute``. Times are monotonic seconds."""

    per_minute: float
    _queues: OrderedDict[Hashable, deque[Item]] = field(default_factory=OrderedDict)
    _buckets: dict[Hashable, _Bucket] = field(default_factory=dict)

    @property
    def users(self) -> int:
        """How many have items here."""
        return len(self._queues)

    def charge(self, user: Hashable, seconds: float, now: float) -> None:
        """So much time an item of this user took."""
        self._bucket(user, now).used_s += seconds

    def put(self, user: Hashable, item: Item) -> None:
        self._queues.setdefault(user, deque()).append(item)

    def give_back(self, user: Hashable, item: Item) -> None:
        """It was taken and not used: it is the next one again, and has cost nothing."""
        self._queues.setdefault(user, deque()).appendleft(item)
        if user in self._buckets:
            self._buckets[user].tokens += 1.0

    def take(
        self, now: float, least: int = 1, most: int = 1, among: int = 1,
        may: Callable[[Hashable, Item], bool] | None = None,
    ) -> list[Item]:  # fmt: skip
        """Next items of the next user who may have some now: ``least`` to ``most``, in between as many as there are if
        what waits is shared ``among`` so many. None if there is nobody. ``may``: is asked about user and first item."""
        for user in sorted(self._queues, key=lambda user: self._bucket(user, now).used_s):
            queue, tokens = self._queues[user], self._bucket(user, now).tokens
            if tokens < 1.0 or (may is not None and not may(user, queue[0])):
                continue
            part = -(-len(queue) * len(self._queues) // among)
            count = min(most, int(tokens), len(queue), max(least, part))
            self._buckets[user].tokens -= count
            taken = [queue.popleft() for _ in range(count)]
            if queue:
                self._queues.move_to_end(user)
            else:
                del self._queues[user]
            return taken
        return []

    def _bucket(self, user: Hashable, now: float) -> _Bucket:
        rate = self.per_minute / 60.0
        full = max(1.0, rate * _BURST_S)
        bucket = self._buckets.setdefault(user, _Bucket(full, now))
        bucket.tokens = min(full, bucket.tokens + (now - bucket.at) * rate)
        bucket.used_s *= 0.5 ** ((now - bucket.at) / _HALF_LIFE_S)
        bucket.at = now
        return bucket

    def forget_idle(self, now: float) -> None:
        """Drop the accounts of users who have used nothing for a while."""
        idle_s = _BURST_S + 10 * _HALF_LIFE_S
        for user in [u for u, b in self._buckets.items() if u not in self._queues and now - b.at > idle_s]:
            del self._buckets[user]
