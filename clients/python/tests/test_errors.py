"""Mistakes of users, and the errors that they get."""

import pickle

import pytest

import tickerline
from tickerline import Tickerline

from .drivers import Driver
from .scripted import EVENT, error_response, json_response, response, scripted_server
from .service import Service, find_free_port


def test_without_a_key(driver_class: type[Driver], service: Service) -> None:
    with driver_class(service.url) as driver, pytest.raises(tickerline.MissingApiKey) as caught:
        driver.get("gap_stats")
    assert caught.value.status == 401
    assert caught.value.code == "missing_api_key"
    assert f"request {caught.value.request_id}" in str(caught.value)


def test_with_a_wrong_key(driver_class: type[Driver], service: Service) -> None:
    key = "tl_live_00000000000000000000000000000000000000"
    with driver_class(service.url, key) as driver, pytest.raises(tickerline.InvalidApiKey) as caught:
        driver.get("gap_stats")
    assert key not in str(caught.value)


def test_with_an_unknown_parameter(service: Service) -> None:
    with Tickerline(service.url, service.key) as client, pytest.raises(TypeError, match="min_gap"):
        client.gap_stats(min_gap=5)  # type: ignore[call-arg]


def test_with_a_date_that_does_not_exist(driver: Driver) -> None:
    with pytest.raises(tickerline.ValidationError, match="YYYY-MM-DD") as caught:
        driver.get("gap_stats", date="2025-02-30")
    assert [field["field"] for field in caught.value.fields] == ["date"]


def test_with_an_ambiguous_symbol(driver: Driver) -> None:
    with pytest.raises(tickerline.AmbiguousTickerLineage) as caught:
        driver.get("ticker_changes", ticker="META")
    error = caught.value
    assert error.reason == "multiple_cik_lineages"
    assert {candidate["cik"]: candidate["current_ticker"] for candidate in error.candidates} == {
        "0001683471": "METV",
        "0001326801": "META",
    }
    chosen = driver.get("ticker_changes", ticker="META", cik=error.candidates[1]["cik"])
    assert chosen["results"][0]["current_ticker"] == "META"
    with pytest.raises(tickerline.AmbiguousTickerLineage):
        driver.rows("gap_stats", ticker="META", follow_lineage=True, limit="all")


def test_with_a_page_of_a_complete_list(driver: Driver) -> None:
    with pytest.raises(tickerline.ValidationError, match="limit can be all only with"):
        driver.get("gap_stats", limit="all")


def test_with_the_address_of_nothing(driver_class: type[Driver]) -> None:
    with driver_class(f"http://127.0.0.1:{find_free_port()}", "key") as driver:
        for read in (driver.get, driver.rows):
            with pytest.raises(tickerline.NoAnswer, match=r"/v1/news.*4 attempts") as caught:
                read("news")
            assert caught.value.reason == "connection"
        assert len(driver.waits) == 6


def test_with_the_address_of_another_program(driver_class: type[Driver]) -> None:
    page = response(200, {"Content-Type": "text/html"}, b"<h1>Please log in</h1>\n")
    other_json = json_response(200, {"hello": "world"})
    with scripted_server(page, page, other_json, json_response(404, {})) as server, driver_class(server.url) as driver:
        for read, query in ((driver.get, {}), (driver.rows, {"limit": "all"})):
            with pytest.raises(tickerline.UnreadableAnswer, match="Does base_url point to Tickerline") as caught:
                read("news", **query)
            assert caught.value.body.startswith("<h1>Please log in")
        for message in ("does not match this client: count is missing", "not a Tickerline error"):
            with pytest.raises(tickerline.UnreadableAnswer, match=message):
                driver.get("news")


def test_with_a_wrong_path_prefix(driver_class: type[Driver], service: Service) -> None:
    with driver_class(f"{service.url}/api", service.key) as driver, pytest.raises(tickerline.NotFound):
        driver.get("news")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://api.example.com?a=1",
        "http://",
    ],
)
def test_with_an_invalid_address(url: str, driver_class: type[Driver]) -> None:
    with pytest.raises(tickerline.InvalidOptions, match="base_url"):
        driver_class(url)


@pytest.mark.parametrize("key", ["", "two words", "tl_live_…", "line\nbreak"])
def test_with_an_invalid_key_which_is_not_quoted(key: str, driver_class: type[Driver]) -> None:
    with pytest.raises(tickerline.InvalidOptions, match="api_key") as caught:
        driver_class("https://api.example.com", key)
    assert not key or key not in str(caught.value)


TIERS = {"required_tier": "pro", "tier": "basic"}
BALANCE = {"reason": "balance_exhausted", "balance_microdollars": -3}


@pytest.mark.parametrize(
    ("answer", "error_class", "details"),
    [
        (error_response(403, "insufficient_tier", TIERS), tickerline.InsufficientTier, TIERS),
        (error_response(402, "insufficient_credits", BALANCE), tickerline.InsufficientCredits, BALANCE),
        (error_response(418, "teapot", {"size": 1.5}), tickerline.UnknownCode, None),
        (error_response(403, "insufficient_tier", {"tier": 1}), tickerline.UnknownCode, {"tier": 1}),
        (error_response(500, "internal_error"), tickerline.InternalError, None),
    ],
)
def test_gives_each_code_its_class(
    answer: bytes, error_class: type[tickerline.ApiError], details: object, driver_class: type[Driver]
) -> None:
    with scripted_server(answer) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.ApiError) as caught:
            driver.get("news")
        assert type(caught.value) is error_class
        assert details is None or caught.value.details == details
        assert len(driver.responses) == 1


def test_distinguishes_a_service_that_is_not_ready_from_one_that_is_busy(driver_class: type[Driver]) -> None:
    parts = {"service": "ok", "database": "away", "usage": "ok", "limits": "ok", "cache": "ok", "clock": "ok"}
    not_ready = error_response(503, "database_pool_timeout", {"parts": parts})
    busy = error_response(503, "database_pool_timeout")
    with scripted_server(not_ready, busy) as server, driver_class(server.url, retries=0) as driver:
        with pytest.raises(tickerline.NotReady) as caught:
            driver.get("health_ready")
        assert caught.value.parts["database"] == "away"
        with pytest.raises(tickerline.DatabasePoolTimeout) as busy_caught:
            driver.get("news")
        assert not isinstance(busy_caught.value, tickerline.NotReady)


def test_keeps_fields_and_enum_values_of_a_newer_service(driver_class: type[Driver]) -> None:
    event = {**EVENT, "type": "merger", "tier": "x", "new_field": [1]}
    page = {"count": 1, "results": [event], "page": 1, "limit": 10, "has_more": False}
    with scripted_server(json_response(200, page)) as server, driver_class(server.url) as driver:
        assert driver.get("timeline", ticker="A")["results"] == [event]


def test_errors_survive_pickling(driver: Driver) -> None:
    with pytest.raises(tickerline.AmbiguousTickerLineage) as caught:
        driver.get("ticker_changes", ticker="META")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is tickerline.AmbiguousTickerLineage
    assert copy.candidates == caught.value.candidates
    assert str(copy) == str(caught.value)


def test_a_request_that_was_not_sent_says_so(service: Service) -> None:
    with Tickerline(service.url, service.key) as client:
        assert repr(client.news()) == "<request to /v1/news, not sent; call get()>"
