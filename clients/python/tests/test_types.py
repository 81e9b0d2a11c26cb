"""Types. mypy checks this file; it fails if an expected error is missing."""

import datetime as dt
from decimal import Decimal
from typing import Literal

from typing_extensions import assert_type

from tickerline import AmbiguousTickerLineage, AsyncTickerline, Tickerline, types

from .service import Service


def test_rows_parameters_and_errors_are_typed(service: Service) -> None:
    client = Tickerline(service.url, service.key)
    page = client.gap_stats(ticker=["GAP7"], date_from=dt.date(2025, 1, 1), limit=1).get()
    assert_type(page, types.GapStatsPage)
    row = page["results"][0]
    assert_type(row["market_open"], Decimal)
    assert_type(row["date"], dt.date)
    assert_type(row["low_time"], dt.datetime | None)
    assert_type(row["closed_over_vwap"], bool | None)
    assert_type(next(client.dilution_data("GAP7").rows()), types.Warrant | types.Convertible)
    assert_type(next(client.follow_changes(dataset="split_status", kind=["added"])), types.Change)
    client.close()


def rejects(client: Tickerline, other: AsyncTickerline, error: AmbiguousTickerLineage) -> None:
    client.gap_stats(min_gap=5)  # type: ignore[call-arg]
    client.gap_stats(date=20250101)  # type: ignore[arg-type]
    client.split_status("GAP7", action_type="announced")  # type: ignore[arg-type]
    client.follow_changes(kind="renamed")  # type: ignore[arg-type]
    client.follow_changes(limit=5)  # type: ignore[call-arg]
    client.split_status()  # type: ignore[call-arg]
    client.overview().rows()  # type: ignore[attr-defined]
    client.gap_stats().frame("dask")  # type: ignore[call-overload]
    client.gap_stats().get()["result"]  # type: ignore[typeddict-item]
    assert_type(error.candidates, list[types.LineageCandidate])
    assert_type(error.code, str)
    limit: Literal["all"] = "all"
    other.gap_stats(limit=limit).rows()
