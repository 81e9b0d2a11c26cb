"""The synchronous and the asynchronous client."""

from collections.abc import Mapping

import httpx

from . import types
from ._calls import AsyncCall, AsyncListCall, Call, ListCall
from ._changes import AsyncChanges, Changes, Via
from ._endpoints import AsyncEndpoints, Endpoints
from ._queries import OneOrMore, Query
from ._requests import OnResponse, Settings, Timing, find_caller
from ._senders import AsyncSender, Sender
from ._structures import Body, Endpoint, ListEndpoint, Row


class Tickerline(Endpoints):
    """The synchronous client. Threads may share a client.

    Args:
        base_url: Such as ``https://api.example.com``, optionally with a path prefix before ``/v1``.
        api_key: Sent as ``Authorization: Bearer``. Optional for endpoints that require no key.
        retries: Retries per request after 429, 502, 503, 504, a lost connection or a timeout; 0 disables them.
        longest_wait: Maximum delay before a retry, seconds. A call fails at once if ``Retry-After`` is longer.
        timeout: Maximum time to connect, and maximum time without a byte from the service, seconds.
        user_agent: Identifies your program. Precedes the client's own name in ``User-Agent``.
        headers: Sent with every request.
        http_client: Replaces the client's own, for example for a proxy or a certificate. You close it. Without the
            client's own transport, the digest of a complete list cannot be verified, only its number of rows.
        on_response: Called with the path and the metadata of every response, including errors, for example to add up
            the cost.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        retries: int = 3,
        longest_wait: float = 30.0,
        timeout: float = 60.0,
        user_agent: str | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.Client | None = None,
        on_response: OnResponse | None = None,
        _timing: Timing | None = None,
    ) -> None:
        settings = Settings(
            base_url,
            api_key,
            retries=retries,
            longest_wait=longest_wait,
            timeout=timeout,
            user_agent=user_agent,
            headers=headers,
            on_response=on_response,
            timing=_timing,
        )
        self._sender = Sender(settings, http_client)

    def follow_changes(
        self,
        *,
        dataset: OneOrMore[types.ChangeDataset] | None = None,
        ticker: OneOrMore[str] | None = None,
        kind: OneOrMore[types.ChangeKind] | None = None,
        after: str | None = None,
        via: Via = "stream",
        interval: float = 1.0,
    ) -> Changes:
        """Iterates over the changes from ``after`` on, without end, each exactly once.

        Reconnects after a lost connection and after 429, 502, 503 and 504, and continues after the last change. Raises
        the service's error if reconnecting cannot help, such as ``CursorExpired``, and the last error, such as
        ``NoAnswer``, after more than ten failures in a row.

        Args:
            dataset: Only changes of these datasets.
            ticker: Only changes of these symbols.
            kind: Only changes of these kinds.
            after: The cursor of the last change, a time such as ``2026-06-01T08:30:00-05:00``, or ``now``. Without it,
                the first changes are the earliest known.
            via: ``stream`` waits for changes on an open connection; ``polling`` requests them again and again.
            interval: With ``polling``: seconds before the next request, unless more changes are known.
        """
        query = {"dataset": dataset, "ticker": ticker, "kind": kind, "after": after}
        return Changes(self._sender, query, via, interval, find_caller())

    def close(self) -> None:
        """Closes all connections."""
        self._sender.close()

    def __enter__(self) -> "Tickerline":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, endpoint: Endpoint[Body], query: Query) -> Call[Body]:
        return Call(self._sender, endpoint, query)

    def _list(self, endpoint: ListEndpoint[Body, Row], query: Query) -> ListCall[Body, Row]:
        return ListCall(self._sender, endpoint, query)


class AsyncTickerline(AsyncEndpoints):
    """The asynchronous client, for asyncio and trio. Its options are those of ``Tickerline``."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        retries: int = 3,
        longest_wait: float = 30.0,
        timeout: float = 60.0,
        user_agent: str | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.AsyncClient | None = None,
        on_response: OnResponse | None = None,
        _timing: Timing | None = None,
    ) -> None:
        settings = Settings(
            base_url,
            api_key,
            retries=retries,
            longest_wait=longest_wait,
            timeout=timeout,
            user_agent=user_agent,
            headers=headers,
            on_response=on_response,
            timing=_timing,
        )
        self._sender = AsyncSender(settings, http_client)

    def follow_changes(
        self,
        *,
        dataset: OneOrMore[types.ChangeDataset] | None = None,
        ticker: OneOrMore[str] | None = None,
        kind: OneOrMore[types.ChangeKind] | None = None,
        after: str | None = None,
        via: Via = "stream",
        interval: float = 1.0,
    ) -> AsyncChanges:
        """Iterates over the changes from ``after`` on, without end, each exactly once.

        Reconnects after a lost connection and after 429, 502, 503 and 504, and continues after the last change. Raises
        the service's error if reconnecting cannot help, such as ``CursorExpired``, and the last error, such as
        ``NoAnswer``, after more than ten failures in a row.

        Args:
            dataset: Only changes of these datasets.
            ticker: Only changes of these symbols.
            kind: Only changes of these kinds.
            after: The cursor of the last change, a time such as ``2026-06-01T08:30:00-05:00``, or ``now``. Without it,
                the first changes are the earliest known.
            via: ``stream`` waits for changes on an open connection; ``polling`` requests them again and again.
            interval: With ``polling``: seconds before the next request, unless more changes are known.
        """
        query = {"dataset": dataset, "ticker": ticker, "kind": kind, "after": after}
        return AsyncChanges(self._sender, query, via, interval, find_caller())

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._sender.aclose()

    async def __aenter__(self) -> "AsyncTickerline":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _call(self, endpoint: Endpoint[Body], query: Query) -> AsyncCall[Body]:
        return AsyncCall(self._sender, endpoint, query)

    def _list(self, endpoint: ListEndpoint[Body, Row], query: Query) -> AsyncListCall[Body, Row]:
        return AsyncListCall(self._sender, endpoint, query)
