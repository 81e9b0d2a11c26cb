"""Follows the change feed over any number of connections. Each connection continues from the newest cursor."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal, cast

import httpx

from . import _contract, types
from ._errors import NoAnswer, UnreadableAnswer
from ._metadata import ResponseMetadata
from ._queries import Query
from ._requests import TRANSPORT_ERRORS, Caller, Exchange, Settings, decode_error, mismatched, not_json
from ._retries import RETRYABLE_STATUSES
from ._senders import AsyncSender, Sender
from ._structures import Mismatch, parse_json

Via = Literal["stream", "polling"]

POLL_LIMIT = 1000
"""Changes per request when polling, the maximum of the API."""

MAX_SILENCE = 45.0
"""Seconds. The service sends a heartbeat every 15 seconds, so a connection that is silent for longer is broken."""

STABLE_SECONDS = 10.0
"""A connection that has worked for this long ends a series of failures, even if there were no changes."""


@dataclass(frozen=True)
class Event:
    """An event of a stream. Its data is empty if it is a heartbeat."""

    name: str
    id: str | None
    """The newest id that the stream has sent so far."""
    data: str


class EventParser:
    """Parses Server-Sent Events, chunk by chunk. Lines end with LF or CRLF, as all HTTP servers in use send them."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._id: str | None = None
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Returns the events that the chunk completes, including those without data."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*self._line, end]).removesuffix(b"\r").decode("utf-8", "replace")
            self._line = []
            if line == "":
                event = Event(self._name, self._id, "\n".join(self._data))
                self._name, self._data = "", []
                yield event
            else:
                self._read_field(line)
        self._line.append(rest)

    def _read_field(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value


class Follower:
    """The state of following the feed: the newest cursor, and the number of consecutive failures."""

    def __init__(self, settings: Settings, query: Query, via: Via) -> None:
        self.settings = settings
        self.path = _contract.CHANGES_ENDPOINT.path if via == "polling" else f"{_contract.CHANGES_ENDPOINT.path}/stream"
        self._query: Query = {**query, "limit": POLL_LIMIT} if via == "polling" else query
        self._after = query.get("after")
        self._has_connected = False
        self._failures = 0
        self._opened_at = 0.0

    def next_exchange(self) -> "FollowExchange":
        return FollowExchange(self, {**self._query, "after": self._after})

    def delay(self, status: int | None, retry_after: float | None) -> float | None:
        """Returns the seconds before the next connection; None to give up. Retries the first connection like a call."""
        if status is None or status in RETRYABLE_STATUSES:
            self._failures += 1
        policy = self.settings.retry_policy
        choose = policy.reconnect_delay if self._has_connected else policy.delay
        return choose(status, retry_after, self._failures)

    def read_page(self, page: types.ChangesBody) -> list[types.Change]:
        self._has_connected = True
        self._failures = 0
        self._after = page["cursor"]
        return page["results"]

    def open_stream(self, metadata: ResponseMetadata) -> "StreamReader":
        self._has_connected = True
        self._opened_at = self.settings.timing.monotonic()
        return StreamReader(self, metadata)

    def move_to(self, cursor: str | None) -> None:
        """Moves to the cursor of an event. Must be called for each event, even if the cursor is unchanged."""
        if cursor and cursor != self._after:
            self._after = cursor
            self._failures = 0
        elif self.settings.timing.monotonic() - self._opened_at >= STABLE_SECONDS:
            self._failures = 0

    def delay_after_loss(self, metadata: ResponseMetadata) -> float:
        """Returns the seconds before the next connection. Raises ``NoAnswer`` to give up."""
        delay = self.delay(None, None)
        if delay is not None:
            return delay
        raise NoAnswer(
            f"The connection to {self.path} was lost {self._failures} times in a row",
            reason="connection",
            request_id=metadata.request_id,
            attempts=self._failures,
        )


class FollowExchange(Exchange):
    """A connection of a follower. The follower decides about retries."""

    def __init__(self, follower: Follower, query: Query) -> None:
        super().__init__(follower.settings, follower.path, query)
        self._follower = follower
        self.timeout = httpx.Timeout(follower.settings.timeout, read=MAX_SILENCE)

    def start_attempt(self) -> dict[str, str]:
        return {**super().start_attempt(), "Accept": "text/event-stream, application/json"}

    def choose_delay(self, status: int | None, retry_after: float | None) -> float | None:
        return self._follower.delay(status, retry_after)


class StreamReader:
    """Reads one stream."""

    def __init__(self, follower: Follower, metadata: ResponseMetadata) -> None:
        self.is_ended = False
        """Whether the service has announced the end of the stream."""
        self._follower = follower
        self._metadata = metadata
        self._parser = EventParser()

    def feed(self, chunk: bytes) -> Iterator[types.Change]:
        """Returns the changes that the chunk completes. Raises the error of a ``gap`` event."""
        for event in self._parser.feed(chunk):
            self._follower.move_to(event.id)
            if event.name == "change":
                yield self._decode(event.data)
            elif event.name == "gap":
                raise decode_error(self._follower.path, replace(self._metadata, status=410), event.data)
            elif event.name == "end":
                self.is_ended = True
                return

    def _decode(self, data: str) -> types.Change:
        path = self._follower.path
        try:
            return cast("types.Change", _contract.CHANGE.decode(parse_json(data)))
        except Mismatch as mismatch:
            raise mismatched(path, self._metadata, data, mismatch) from None
        except ValueError:
            raise not_json(path, self._metadata, data) from None

    def not_a_stream(self, text: str) -> UnreadableAnswer:
        return mismatched(self._follower.path, self._metadata, text, Mismatch("expected text/event-stream"))


def is_event_stream(response: httpx.Response) -> bool:
    return bool(response.headers.get("content-type", "").startswith("text/event-stream"))


class Changes(Iterator[types.Change]):
    """An endless iterator over changes. Close it, or use ``with``, if you stop early."""

    def __init__(self, sender: Sender, query: Query, via: Via, interval: float, caller: Caller) -> None:
        follower = Follower(sender.settings, query, via)
        read = self._poll(sender, follower, interval, caller)
        self._changes = read if via == "polling" else self._stream(sender, follower, caller)

    def __next__(self) -> types.Change:
        return next(self._changes)

    def __enter__(self) -> "Changes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._changes.close()

    def _stream(self, sender: Sender, follower: Follower, caller: Caller) -> Generator[types.Change, None, None]:
        while True:
            with sender.open(follower.next_exchange(), caller) as (response, metadata):
                sender.report(follower.path, metadata, caller)
                reader = follower.open_stream(metadata)
                try:
                    if not is_event_stream(response):
                        response.read()
                        raise reader.not_a_stream(response.text)
                    for chunk in response.iter_bytes():
                        yield from reader.feed(chunk)
                        if reader.is_ended:
                            break
                except TRANSPORT_ERRORS:
                    pass
            sender.settings.timing.sleep(follower.delay_after_loss(metadata))

    def _poll(
        self, sender: Sender, follower: Follower, interval: float, caller: Caller
    ) -> Generator[types.Change, None, None]:
        while True:
            page = sender.exchange(_contract.CHANGES_ENDPOINT, follower.next_exchange(), caller).body
            yield from follower.read_page(page)
            if not page["has_more"]:
                sender.settings.timing.sleep(interval)


class AsyncChanges(AsyncIterator[types.Change]):
    """An endless iterator over changes. Close it, or use ``async with``, if you stop early."""

    def __init__(self, sender: AsyncSender, query: Query, via: Via, interval: float, caller: Caller) -> None:
        follower = Follower(sender.settings, query, via)
        read = self._poll(sender, follower, interval, caller)
        self._changes = read if via == "polling" else self._stream(sender, follower, caller)

    async def __anext__(self) -> types.Change:
        return await anext(self._changes)

    async def __aenter__(self) -> "AsyncChanges":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the connection."""
        await self._changes.aclose()

    async def _stream(
        self, sender: AsyncSender, follower: Follower, caller: Caller
    ) -> AsyncGenerator[types.Change, None]:
        while True:
            async with sender.open(follower.next_exchange(), caller) as (response, metadata):
                sender.report(follower.path, metadata, caller)
                reader = follower.open_stream(metadata)
                try:
                    if not is_event_stream(response):
                        await response.aread()
                        raise reader.not_a_stream(response.text)
                    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_bytes())) as chunks:
                        async for chunk in chunks:
                            for change in reader.feed(chunk):
                                yield change
                            if reader.is_ended:
                                break
                except TRANSPORT_ERRORS:
                    pass
            await sender.settings.timing.sleep_async(follower.delay_after_loss(metadata))

    async def _poll(
        self, sender: AsyncSender, follower: Follower, interval: float, caller: Caller
    ) -> AsyncGenerator[types.Change, None]:
        while True:
            page = (await sender.exchange(_contract.CHANGES_ENDPOINT, follower.next_exchange(), caller)).body
            for change in follower.read_page(page):
                yield change
            if not page["has_more"]:
                await sender.settings.timing.sleep_async(interval)
