"""Retries. The clock is injected, so that no test waits."""

from email.utils import formatdate

import httpx
import pytest

import tickerline
from tickerline._retries import RetryPolicy

from .drivers import AsyncDriver, Driver
from .scripted import error_response, json_response, scripted_server

OK = json_response(200, {"count": 0, "results": [], "page": 1, "limit": 10, "has_more": False})
BUSY = error_response(503, "database_pool_timeout")


def limited(retry_after: str) -> bytes:
    return error_response(429, "rate_limit_exceeded", headers={"Retry-After": retry_after})


def test_waits_longer_after_each_attempt(driver_class: type[Driver]) -> None:
    with scripted_server(BUSY, b"", BUSY, OK) as server, driver_class(server.url, random=0.5) as driver:
        driver.get("news")
        assert driver.waits == [0.125 * 1.5, 0.25 * 1.5, 0.5 * 1.5]
        assert driver.responses[0][1].attempts == 4
        ids = {
            line for head in server.requests for line in head.lower().split("\r\n") if line.startswith("x-request-id")
        }
        assert len(ids) == 4


def test_honors_retry_after_in_seconds_and_as_a_date(driver_class: type[Driver]) -> None:
    now = 1_800_000_000.0
    date = formatdate(now + 7, usegmt=True)
    with scripted_server(limited("2"), limited(date), OK) as server, driver_class(server.url, now=now) as driver:
        driver.get("news")
        assert driver.waits == [2, 7]


def test_adds_jitter_to_retry_after(driver_class: type[Driver]) -> None:
    with scripted_server(limited("20"), OK) as server, driver_class(server.url, random=1.0) as driver:
        driver.get("news")
        assert driver.waits == [22]


def test_fails_at_once_if_retry_after_is_longer_than_the_maximum(driver_class: type[Driver]) -> None:
    with scripted_server(limited("31")) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.RateLimitExceeded) as caught:
            driver.get("news")
        assert caught.value.retry_after_seconds == 31
        assert driver.waits == []


def test_raises_the_last_error_after_the_last_retry(driver_class: type[Driver]) -> None:
    with scripted_server(BUSY, BUSY) as server, driver_class(server.url, retries=1) as driver:
        with pytest.raises(tickerline.DatabasePoolTimeout):
            driver.get("news")
        assert len(server.requests) == 2


def test_does_not_retry_other_errors(driver_class: type[Driver]) -> None:
    with scripted_server(error_response(500, "internal_error"), OK) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.InternalError):
            driver.get("news")
        assert len(server.requests) == 1


def test_retries_an_export_before_its_first_row(driver_class: type[Driver]) -> None:
    with scripted_server(
        BUSY,
        BUSY,
        error_response(402, "insufficient_credits", {"reason": "balance_exhausted", "balance_microdollars": 0}),
    ) as server:
        with driver_class(server.url) as driver, pytest.raises(tickerline.InsufficientCredits):
            driver.rows("news", limit="all")
        assert len(server.requests) == 3


def test_reports_a_timeout(driver_class: type[Driver]) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    transport = httpx.MockTransport(fail)
    http = httpx.AsyncClient(transport=transport) if driver_class is AsyncDriver else httpx.Client(transport=transport)
    with driver_class("http://localhost", http_client=http, timeout=5, retries=0) as driver:
        with pytest.raises(tickerline.NoAnswer, match="/v1/news sent nothing for 5 seconds") as caught:
            driver.get("news")
        assert caught.value.reason == "timeout"


def test_retries_less_in_an_outage() -> None:
    policy = RetryPolicy(3, 30, lambda: 0)
    assert [policy.delay(503, None, 1) is not None for _ in range(11)] == [True] * 10 + [False]
    for _ in range(11):
        assert policy.delay(200, None, 1) is None
    assert policy.delay(None, None, 1) is not None
    assert policy.delay(None, None, 1) is None


def test_reads_all_pages_of_the_moment_of_the_first(driver_class: type[Driver]) -> None:
    moment = "2026-03-01T23:59:59.123456-05:00"
    pages = [
        json_response(
            200,
            {"count": 0, "results": [], "page": page, "limit": 10, "has_more": page < 2},
            {"X-As-Of": moment},
        )
        for page in (1, 2)
    ]
    with scripted_server(*pages) as server, driver_class(server.url) as driver:
        driver.pages("news", as_of="now")
    assert ["as_of=now" in head for head in server.requests] == [True, False]
    assert httpx.QueryParams(server.requests[1].split(" ", 2)[1].split("?")[1])["as_of"] == moment


def test_begins_each_page_at_the_place_in_the_link_to_it(driver_class: type[Driver]) -> None:
    place = "1795845723123.7.12.0.5"
    pages = [
        json_response(200, {"count": 0, "results": [], "page": page, "limit": 10, "has_more": page < 3}, headers)
        for page, headers in (
            (1, {"Link": f'<https://elsewhere/v1/usage?page=2&after={place}>; rel="next"'}),
            # A proxy has removed the header: the same place again would repeat the page.
            (2, {}),
            (3, {}),
        )
    ]
    with scripted_server(*pages) as server, driver_class(server.url) as driver:
        driver.pages("usage", endpoint=["/v1/news"])
    queries = [httpx.QueryParams(head.split(" ", 2)[1].split("?")[1]) for head in server.requests]
    assert [query.get("after") for query in queries] == [None, place, None]
    assert [query.get("page") for query in queries] == [None, "2", "3"]
