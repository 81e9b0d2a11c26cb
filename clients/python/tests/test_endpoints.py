"""Every endpoint, against the running service."""

import datetime as dt
import inspect
import json
from decimal import Decimal
from typing import Any

import pytest

import tickerline
from tickerline import AsyncTickerline, Tickerline, _contract
from tickerline._api_errors import ERRORS
from tickerline._metadata import read_metadata
from tickerline._structures import Endpoint, ListEndpoint

from .drivers import Driver
from .service import ROOT, Service

SPECIFICATIONS: dict[str, Endpoint[Any]] = {
    name.removesuffix("_ENDPOINT").lower(): value
    for name, value in vars(_contract).items()
    if isinstance(value, Endpoint)
}
LISTS = [name for name, endpoint in SPECIFICATIONS.items() if isinstance(endpoint, ListEndpoint)]
DEPRECATED = {"historical_tickers"}
EMPTY_LISTS = {"account_invoices", "account_invoice_lines", "pump_and_dump_tracker", "usage", "usage_daily"}

REQUIRED: dict[str, dict[str, Any]] = {
    "ticker_changes": {"ticker": "OSTK"},
    "historical_tickers": {"ticker": "NXH"},
    "float_outstanding": {"ticker": "GPW8"},
    "screener": {"ticker": "GPW8"},
    "estimate": {"endpoint": "/v1/gap-stats", "parameters": {"ticker": "GAP7"}},
}


def query_of(name: str) -> dict[str, Any]:
    """Returns a query for which the endpoint returns rows."""
    parameters = inspect.signature(getattr(Tickerline, name)).parameters
    return REQUIRED.get(name) or ({"ticker": "GAP7"} if "ticker" in parameters else {})


def test_has_a_method_for_every_endpoint_with_json() -> None:
    document = json.loads((ROOT / "test/openapi.json").read_text())
    paths = {
        path
        for path, methods in document["paths"].items()
        if "application/json" in methods["get"]["responses"]["200"]["content"]
    }
    assert {endpoint.path for endpoint in SPECIFICATIONS.values()} == paths
    for name in SPECIFICATIONS:
        parameters = [
            list(inspect.signature(getattr(client, name)).parameters.values())
            for client in (Tickerline, AsyncTickerline)
        ]
        assert parameters[0] == parameters[1]


def test_exports_every_error() -> None:
    classes = {error_class.__name__ for variants in ERRORS.values() for error_class, _ in variants}
    assert classes <= set(tickerline.__all__)


@pytest.mark.parametrize("name", [name for name in SPECIFICATIONS if name not in DEPRECATED])
def test_decodes_the_response(name: str, driver: Driver) -> None:
    body = driver.get(name, **query_of(name))
    assert isinstance(body, dict)
    if name in LISTS and name not in EMPTY_LISTS:
        assert body["count"] == len(body["results"]) > 0
    assert [path for path, _ in driver.responses] == [SPECIFICATIONS[name].path]


@pytest.mark.parametrize("name", [name for name in LISTS if name not in ("usage", "usage_daily")])
def test_reads_the_same_rows_from_pages_and_from_a_verified_export(name: str, driver: Driver) -> None:
    query = query_of(name)
    pages = driver.pages(name, **query, limit=50)
    assert [page["page"] for page in pages] == list(range(1, len(pages) + 1))
    rows = driver.rows(name, **query)
    assert rows == [row for page in pages for row in page["results"]]
    assert driver.rows(name, **query, limit="all") == rows
    reading = driver.reading
    assert reading is not None
    assert reading.is_digest_verified
    assert reading.rows_expected == len(rows)


def test_decodes_decimals_dates_and_datetimes(driver: Driver) -> None:
    (row,) = driver.rows("gap_stats", ticker="GAP7", date=dt.date(2025, 7, 15))
    assert row["date"] == dt.date(2025, 7, 15)
    assert row["low_time"] == dt.datetime(2025, 7, 15, 14, 18, 17, tzinfo=dt.timezone.utc)
    assert row["low_time"].utcoffset() == dt.timedelta(hours=-5)
    assert isinstance(row["market_open"], Decimal)
    assert type(row["volume"]) is int
    (screened,) = driver.rows("screener", ticker="ALI4")
    assert screened["cik"] == "0999001045"
    assert isinstance(screened["gain_3_day"], Decimal)
    (chain,) = driver.get("ticker_changes", ticker="OSTK")["results"]
    assert chain["history"][0]["effective_date"] == dt.date(2023, 11, 6)


def test_sends_lists_bounds_and_booleans_as_the_service_expects(driver: Driver) -> None:
    rows = driver.rows(
        "gap_stats",
        ticker=["GAP7", "NVQ7"],
        date_from=dt.date(2025, 1, 1),
        date_to="2025-12-31",
        min_gap_percentage=Decimal("4.5"),
        max_gap_percentage=1e2,
        closed_over_vwap=False,
    )
    assert rows
    for row in rows:
        assert row["ticker"] in ("GAP7", "NVQ7")
        assert row["date"].year == 2025
        assert Decimal("4.5") <= row["gap_percentage"] <= 100
        assert row["closed_over_vwap"] is False
    notices = driver.rows("nasdaq_compliance", status=["active", "extended"], limit="all")
    assert {row["status"] for row in notices} == {"active", "extended"}


def test_follows_a_company_and_reports_its_symbols(service: Service) -> None:
    with Tickerline(service.url, service.key) as client:
        response = client.gap_stats(ticker="OSTK", follow_lineage=True).get_with_metadata()
        (lineage,) = response.metadata.lineages
        assert [period.ticker for period in lineage.periods] == ["OSTK", "BYON", "BBBY", "NXH"]
        assert lineage.periods[0].until == dt.date(2023, 11, 6)
        assert lineage.periods[-1].until is None
        timeline = client.timeline("OSTK", follow_lineage=True).get()["results"]
        assert {row["lineage_ticker"] for row in timeline} == {"NXH"}


def test_counts_the_companies_that_the_header_leaves_out() -> None:
    headers = {"x-lineage": "OSTK..2023-11-06, BYON;outside=100+, AAPL, GAP7;outside=3;more=12"}
    metadata = read_metadata(200, headers, attempts=1, now=0, sent_request_id="r")
    symbols = [[period.ticker for period in lineage.periods] for lineage in metadata.lineages]
    assert symbols == [["OSTK", "BYON"], ["AAPL"], ["GAP7"]]
    assert [lineage.omitted_rows for lineage in metadata.lineages] == [100, 0, 3]
    assert metadata.more_lineages == 12


def test_states_the_cost_of_each_call(driver: Driver) -> None:
    query = {"ticker": "GAP7", "date": "2025-01-30"}
    driver.get("gap_stats", **query)
    ((_, metadata),) = driver.responses
    assert metadata.cost_microdollars == driver.estimate("gap_stats", **query)["estimated_cost_microdollars"] > 0
    assert metadata.rate_limit is not None
    assert metadata.attempts == 1
    rows = driver.rows("gap_stats", ticker="GAP7", limit="all")
    assert driver.reading is not None
    estimate = driver.estimate("gap_stats", ticker="GAP7", limit="all")
    assert estimate["records_total"] == len(rows)
    assert driver.reading.cost_microdollars == estimate["estimated_cost_microdollars"] > 0
    driver.rows("gap_stats", ticker="GAP7", limit=5)
    assert driver.reading.cost_microdollars == sum(told.cost_microdollars or 0 for _, told in driver.responses[-3:])


def test_quotes_the_values_of_a_list_that_contain_a_comma(driver: Driver) -> None:
    found = driver.get("screener", industry="Biotechnology")["count"]
    assert found > 0
    assert driver.get("screener", industry="other, Biotechnology")["count"] == found
    assert driver.get("screener", industry=["other, Biotechnology"])["count"] == 0
    assert driver.get("screener", industry=['"other", x', "biotechnology"])["count"] == found


def test_names_dropped_symbols(driver: Driver) -> None:
    driver.get("split_status", ticker=["GAP7", "@@"])
    assert driver.responses[0][1].dropped_tickers == ("@@",)


def test_states_the_moment_of_a_past_response(driver: Driver) -> None:
    moment = dt.datetime.now(dt.timezone.utc)
    driver.get("split_status", ticker="GAP7", as_of=moment.isoformat())
    driver.get("split_status", ticker="GAP7")
    assert [metadata.as_of for _, metadata in driver.responses] == [moment, None]


def test_stops_reading_when_the_loop_ends(driver: Driver) -> None:
    assert driver.first_row("intraday_runners", limit=2)["ticker"]
    assert len(driver.responses) == 1
    assert driver.first_row("intraday_runners", limit="all")["ticker"]


def test_warns_once_of_a_deprecated_endpoint_in_the_callers_line(driver: Driver) -> None:
    with pytest.warns(DeprecationWarning, match="/v1/ticker-changes") as warned:
        driver.get("historical_tickers", ticker="NXH")
    driver.get("historical_tickers", ticker="NXH")
    (warning,) = warned
    assert warning.filename.endswith("drivers.py")
    notice = driver.responses[0][1].deprecated
    assert notice is not None
    assert notice.announced == dt.date(2026, 11, 1)


def test_identifies_itself_by_the_version_of_the_release() -> None:
    files = ("package.json", "clients/typescript/package.json")
    versions = [json.loads((ROOT / file).read_text())["version"] for file in files]
    assert versions == [tickerline.__version__] * 2
