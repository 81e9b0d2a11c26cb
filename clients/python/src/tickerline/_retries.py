"""Decides when a request is retried. The policy and its numbers are those of the TypeScript client."""

import threading
from collections.abc import Callable

RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
"""The service sends 429 and 503, load balancers 502 and 504. Repeating a GET is safe."""

INITIAL_DELAY = 0.25

MAX_RETRY_BUDGET = 10.0
"""Maximum number of consecutive retries by a client. Each response that needs no retry restores a tenth of a retry."""

MAX_RECONNECT_FAILURES = 10
"""Consecutive failures that a follower accepts; the next one ends it. The delays add up to more than a minute."""


class RetryPolicy:
    """All calls of a client share one policy and its budget, so that the client soon stops retrying in an outage."""

    def __init__(self, times: int, longest_wait: float, random: Callable[[], float]) -> None:
        self._times = times
        self._longest_wait = longest_wait
        self._random = random
        self._budget = MAX_RETRY_BUDGET
        self._lock = threading.Lock()

    def delay(self, status: int | None, retry_after: float | None, attempts: int) -> float | None:
        """Returns the seconds before the next attempt; None for no other. ``status`` is None if no response arrived."""
        with self._lock:
            if status is not None and status not in RETRYABLE_STATUSES:
                self._budget = min(MAX_RETRY_BUDGET, self._budget + 0.1)
                return None
            if attempts > self._times or self._budget < 1 or (retry_after or 0) > self._longest_wait:
                return None
            self._budget -= 1
        return self._choose_delay(retry_after, attempts)

    def reconnect_delay(self, status: int | None, retry_after: float | None, failures: int) -> float | None:
        """Returns the seconds before a follower of the changes reconnects; None if it gives up.

        Only consecutive failures count, because a follower must survive any number of restarts of the service.
        """
        is_final = status is not None and status not in RETRYABLE_STATUSES
        if is_final or failures > MAX_RECONNECT_FAILURES or (retry_after or 0) > self._longest_wait:
            return None
        return self._choose_delay(retry_after, failures)

    def _choose_delay(self, retry_after: float | None, attempts: int) -> float:
        # Jitter spreads out the retries of many clients. It never shortens Retry-After.
        minimum = INITIAL_DELAY * 2 ** (attempts - 1) / 2 if retry_after is None else retry_after
        jitter = minimum if retry_after is None else max(INITIAL_DELAY, retry_after / 10)
        return max(retry_after or 0, min(self._longest_wait, minimum + self._random() * jitter))
