"""Follows scripted changes over real sockets: resumption, errors and waits."""

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import tickerline
from tickerline._changes import Event, EventParser

from .drivers import AsyncDriver, Driver
from .scripted import ScriptedServer, chunked_response, error_response, json_response, response, scripted_server

STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
EXPIRED = {"earliest": "2026-06-01T08:30:00.000000-05:00", "restart": "/v1/changes?after=now"}
BUSY = error_response(503, "data_refreshing")


def cursor(number: int, step: int = 0) -> str:
    return f"{number}.{step}.{'0123456789abcdef' * 2}"


def change(number: int) -> dict[str, object]:
    row = {"ticker": "A", "note": "é\u2028\x85: data:\nid: 7\n\nevent: end", "price": 0.5}
    return {
        "cursor": cursor(number),
        "recorded_at": "2026-06-01T08:30:00.123456-05:00",
        "dataset": "split_status",
        "kind": "added",
        "key": {"ticker": "A"},
        "row": row,
        "before": None,
        "changed": [],
    }


def block(*fields: tuple[str, str]) -> bytes:
    return "".join(f"{name}: {value}\n" for name, value in fields).encode() + b"\n"


def change_event(number: int) -> bytes:
    data = json.dumps(change(number), ensure_ascii=False)
    return block(("id", cursor(number)), ("event", "change"), ("data", data))


def heartbeat(*, moved_to: str | None = None) -> bytes:
    return block(("", "heartbeat"), *([] if moved_to is None else [("id", moved_to)]))


def end(reason: str) -> bytes:
    data = json.dumps({"reason": reason, "message": "Scripted.", "cursor": cursor(9999)})
    return block(("event", "end"), ("data", data))


def stream(*events: bytes) -> bytes:
    return b"".join(chunked_response([event for event in events if event], STREAM, {}))


def query_of(head: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(head.split(" ")[1]).query).items()}


def number_of(changes: list[Any]) -> list[int]:
    return [int(found["cursor"].split(".")[0]) for found in changes]


class Script:
    """Random connections: each is refused, lost, or cut after some of its bytes."""

    def __init__(self, seed: int, connections: int) -> None:
        self.random = random.Random(seed)
        self.server: ScriptedServer | None = None
        self.expected: list[str | None] = [None]
        self.responses = [*(self._connection() for _ in range(connections)), self._rest()]

    def _after(self) -> str | None:
        assert self.server is not None
        return query_of(self.server.requests[-1]).get("after")

    def _rest(self) -> Iterator[bytes]:
        number = int((self._after() or "0").split(".")[0])
        yield stream(*(change_event(number + 1 + index) for index in range(40)))

    def _connection(self) -> Iterator[bytes]:
        after = self._after()
        kind = self.random.choice(["events", "events", "events", "events", "busy", "lost"])
        if kind != "events":
            self.expected.append(after)
            yield BUSY if kind == "busy" else b""
            return
        number, step = ([int(part) for part in after.split(".")[:2]]) if after else (0, 0)
        blocks: list[tuple[bytes, str | None]] = [(b"retry: 1000\n\n", None)]
        for choice in self.random.choices(["change", "change", "heartbeat", "moved"], k=self.random.randrange(5)):
            if choice == "change":
                number, step = number + 1, 0
                blocks.append((change_event(number), cursor(number)))
            elif choice == "moved":
                step += 1
                blocks.append((heartbeat(moved_to=cursor(number, step)), cursor(number, step)))
            else:
                blocks.append((heartbeat(), None))
        if self.random.random() < 0.3:
            blocks.append((end(self.random.choice(["server_stopping", "slow_client"])), None))
        body = b"".join(text for text, _ in blocks)
        cut = self.random.choice([len(body), self.random.randrange(len(body) + 1)])
        newest, position = after, 0
        for text, place in blocks:
            position += len(text)
            newest = place if place is not None and position <= cut else newest
        self.expected.append(newest)
        sent = stream(body[:cut])
        # Without its end, the response is cut off.
        yield sent if self.random.random() < 0.5 else sent.removesuffix(b"0\r\n\r\n")


@pytest.mark.parametrize("seed", range(40))
def test_reads_every_change_once_and_in_order(seed: int, driver_class: type[Driver]) -> None:
    script = Script(seed, 9)
    with scripted_server(*script.responses) as server, driver_class(server.url, retries=9) as driver:
        script.server = server
        assert number_of(driver.follow(20)) == list(range(1, 21))
        assert [query_of(head).get("after") for head in server.requests] == script.expected[: len(server.requests)]


def test_parses_events_in_chunks_of_any_size() -> None:
    text = "\ufeffa\n: heartbeat\nid: 1\n\nid\nevent:a\ndata: é\u2028x\ndata:y\nid: \0\n\ndata\r\n\r\nid: 2\nevent: b\n"
    expected = [Event("", "1", ""), Event("a", "", "é\u2028x\ny"), Event("", "", "")]
    data = text.encode()
    for size in range(1, len(data)):
        parser = EventParser()
        chunks = [data[start : start + size] for start in range(0, len(data), size)]
        assert [event for chunk in chunks for event in parser.feed(chunk)] == expected


def test_sends_the_query_and_decodes_changes(driver_class: type[Driver]) -> None:
    event = change_event(1).replace(b"0.5", b"12345678901234567890.25").replace(b'"added"', b'"merged"')
    with scripted_server(stream(event)) as server, driver_class(server.url, "key") as driver:
        (found,) = driver.follow(1, dataset=["split_status", "news"], kind="added", ticker="A", after="now")
        assert found["row"]["price"] == Decimal("12345678901234567890.25")
        assert found["kind"] == "merged"
        assert found["recorded_at"].isoformat() == "2026-06-01T08:30:00.123456-05:00"
        (head,) = server.requests
        assert head.startswith("GET /v1/changes/stream?")
        query = {"dataset": "split_status,news", "kind": "added", "ticker": "A", "after": "now"}
        assert query_of(head) == query
        assert "accept: text/event-stream" in head.lower()
        assert [path for path, _ in driver.responses] == ["/v1/changes/stream"]


def test_polls_after_the_interval_unless_more_is_known(driver_class: type[Driver]) -> None:
    def page(number: int, *, has_more: bool) -> bytes:
        results = [change(number)] if number < 4 else []
        return json_response(
            200, {"count": len(results), "results": results, "cursor": cursor(number), "has_more": has_more}
        )

    pages = [page(1, has_more=True), page(2, has_more=False), BUSY, page(3, has_more=False)]
    with scripted_server(*pages) as server, driver_class(server.url) as driver:
        assert number_of(driver.follow(3, via="polling", interval=7, dataset="split_status")) == [1, 2, 3]
        assert driver.waits == [7, 0.125]
        places = [None, cursor(1), cursor(2), cursor(2)]
        assert [query_of(head).get("after") for head in server.requests] == places
        assert query_of(server.requests[0]) == {"dataset": "split_status", "limit": "1000"}


GAP = error_response(410, "cursor_expired", EXPIRED).partition(b"\r\n\r\n")[2].decode()
EMPTY_BALANCE = {"reason": "balance_exhausted", "balance_microdollars": 0}
REFUSALS: list[tuple[type[tickerline.TickerlineError], bytes]] = [
    (tickerline.CursorExpired, error_response(410, "cursor_expired", EXPIRED)),
    (tickerline.CursorExpired, stream(block(("event", "gap"), ("data", GAP)), end("gap"))),
    (tickerline.InvalidApiKey, error_response(401, "invalid_api_key")),
    (tickerline.InsufficientCredits, error_response(402, "insufficient_credits", EMPTY_BALANCE)),
    (tickerline.RateLimitExceeded, error_response(429, "rate_limit_exceeded", headers={"Retry-After": "31"})),
    (tickerline.UnknownCode, error_response(409, "new_code")),
    (tickerline.UnreadableAnswer, response(200, {"Content-Type": "text/html"}, b"<html>")),
    (tickerline.UnreadableAnswer, stream(block(("event", "change"), ("data", "{}")))),
    (tickerline.UnreadableAnswer, stream(block(("event", "change"), ("data", "{")))),
]


@pytest.mark.parametrize(("error", "refusal"), REFUSALS)
def test_raises_the_error_of_a_later_connection(
    error: type[tickerline.TickerlineError], refusal: bytes, driver_class: type[Driver]
) -> None:
    found: list[Any] = []
    first = stream(change_event(1), end("key_revoked"))
    with scripted_server(first, refusal) as server, driver_class(server.url) as driver:
        with pytest.raises(error) as caught:
            driver.follow(2, found)
        assert number_of(found) == [1]
        assert len(server.requests) == 2
        if isinstance(caught.value, tickerline.CursorExpired):
            assert (caught.value.status, caught.value.earliest) == (410, EXPIRED["earliest"])


def test_retries_the_first_connection_like_any_request(driver_class: type[Driver]) -> None:
    with scripted_server(BUSY, BUSY, BUSY) as server, driver_class(server.url, retries=2) as driver:
        with pytest.raises(tickerline.DataRefreshing):
            driver.follow(1)
        assert len(server.requests) == 3


@pytest.mark.parametrize("failure", [BUSY, stream(heartbeat())])
def test_gives_up_after_ten_failures_in_a_row(failure: bytes, driver_class: type[Driver]) -> None:
    error = tickerline.DataRefreshing if failure == BUSY else tickerline.NoAnswer
    found: list[Any] = []
    responses = [stream(change_event(1)), *[failure] * 7, stream(change_event(2)), *[failure] * 12]
    with scripted_server(*responses) as server, driver_class(server.url, longest_wait=4, retries=0) as driver:
        with pytest.raises(error):
            driver.follow(3, found)
        assert number_of(found) == [1, 2]
        assert len(server.requests) == 19
        series = [0.125, 0.25, 0.5, 1, 2, 4, 4, 4, 4, 4]
        assert driver.waits == [*series[:8], *series]


def test_never_gives_up_while_connections_work_for_some_time(driver_class: type[Driver]) -> None:
    seconds = iter(range(0, 10_000, 15))
    responses = [*[stream(heartbeat())] * 15, stream(change_event(1))]
    with scripted_server(*responses) as server, driver_class(server.url, monotonic=lambda: next(seconds)) as driver:
        assert number_of(driver.follow(1)) == [1]
        assert driver.waits == [0.125] * 15


def test_takes_a_silent_connection_for_lost(driver_class: type[Driver]) -> None:
    requests: list[httpx.Request] = []

    def events() -> Iterator[bytes]:
        yield change_event(len(requests))
        raise httpx.ReadTimeout("")

    async def async_events() -> Any:
        for event in events():
            yield event

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, headers=STREAM, content=async_events() if is_async else events())

    is_async = driver_class is AsyncDriver
    transport = httpx.MockTransport(answer)
    http = httpx.AsyncClient(transport=transport) if is_async else httpx.Client(transport=transport)
    with driver_class("http://localhost", http_client=http, timeout=5) as driver:
        assert number_of(driver.follow(2)) == [1, 2]
    assert requests[0].extensions["timeout"] == {"connect": 5, "read": 45, "write": 5, "pool": 5}


def test_follows_the_service(driver: Driver) -> None:
    query = {"dataset": "split_status", "ticker": ["GAP7", "PMP1"]}
    expected = driver.get("changes", **query)["results"]
    assert len(expected) > 1
    for via in ("stream", "polling"):
        assert driver.follow(len(expected), via=via, **query) == expected
        assert driver.follow(1, via=via, **query, after=expected[0]["cursor"]) == expected[1:2]
    with pytest.raises(tickerline.ValidationError):
        driver.follow(1, kind="renamed")
