"""Data frames of pandas and polars."""

import math
import sys
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import polars.testing as pl_testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tickerline._contract import GAP_STATS_ENDPOINT
from tickerline._frames import Backend, Decimals, FrameMaker

from .drivers import Driver

GAPS = {"ticker": "GAP7"}
EMPTY = {"ticker": "GAP7", "date": "2020-01-02"}

FRAMES: list[tuple[str, dict[str, Any]]] = [
    ("gap_stats", GAPS),
    ("gap_stats", {"ticker": "GAP7", "follow_lineage": True}),
    ("dilution_data_advanced", {}),
    ("ownership", {"ticker": "GAP7"}),
    ("historical_float_pro", {"ticker": "GAP7", "provenance": True}),
    ("screener", {}),
]


def types_of(frame: Any) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def test_pandas_columns_have_the_types_of_the_contract(driver: Driver) -> None:
    frame = driver.frame("gap_stats", GAPS)
    rows = driver.rows("gap_stats", **GAPS)
    assert len(frame) == len(rows) > 10
    types = types_of(frame)
    assert types["ticker"].startswith("string") or types["ticker"] == "str"
    assert types["date"] == "datetime64[us]"
    assert types["low_time"] == "datetime64[us, America/New_York]"
    assert types["volume"] == "int64"
    assert types["closed_over_vwap"] == "boolean"
    assert types["market_open"] == "float64"
    assert types["all_tags"] == "object"
    assert list(frame["all_tags"]) == [row["all_tags"] for row in rows]
    assert list(frame["market_open"]) == [float(row["market_open"]) for row in rows]
    assert [None if pd.isna(value) else value.to_pydatetime() for value in frame["low_time"]] == [
        row["low_time"] for row in rows
    ]
    assert [value.date() for value in frame["date"]] == [row["date"] for row in rows]


def test_pandas_decimals_may_be_exact_objects_or_arrow_decimals(driver: Driver) -> None:
    rows = driver.rows("gap_stats", **GAPS)
    exact = driver.frame("gap_stats", GAPS, decimals="decimal")
    assert types_of(exact)["market_open"] == "object"
    assert list(exact["market_open"]) == [row["market_open"] for row in rows]
    arrow = driver.frame("gap_stats", GAPS, decimals="arrow")
    assert arrow["market_open"].dtype == pd.ArrowDtype(pa.decimal128(38, 4))
    assert list(arrow["market_open"]) == [row["market_open"] for row in rows]
    assert arrow["market_open"].sum() == sum(row["market_open"] for row in rows)


def test_polars_columns_have_the_types_of_the_contract(driver: Driver) -> None:
    frame = driver.frame("gap_stats", GAPS, backend="polars")
    rows = driver.rows("gap_stats", **GAPS)
    schema = frame.schema
    assert schema["ticker"] == pl.String
    assert schema["date"] == pl.Date
    assert schema["low_time"] == pl.Datetime("us", "America/New_York")
    assert schema["volume"] == pl.Int64
    assert schema["closed_over_vwap"] == pl.Boolean
    assert schema["market_open"] == pl.Float64
    assert schema["all_tags"] == pl.List(pl.String)
    for name in ("date", "low_time", "volume", "all_tags"):
        assert frame[name].to_list() == [row[name] for row in rows]
    for name in ("market_open", "premarket_vwap"):
        assert frame[name].to_list() == [None if row[name] is None else float(row[name]) for row in rows]
    exact = driver.frame("gap_stats", GAPS, backend="polars", decimals="decimal")
    assert exact.schema["market_open"] == pl.Decimal(38, 4)
    assert exact["market_open"].to_list() == [row["market_open"] for row in rows]


@pytest.mark.parametrize("backend", ["pandas", "polars"])
@pytest.mark.parametrize("decimals", ["decimal", "float64", "arrow"])
def test_an_empty_list_has_the_same_columns(backend: str, decimals: str, driver: Driver) -> None:
    empty = driver.frame("gap_stats", EMPTY, backend=backend, decimals=decimals)
    full = driver.frame("gap_stats", GAPS, backend=backend, decimals=decimals)
    assert len(empty) == 0
    assert len(full) > 0
    if backend == "pandas":
        assert types_of(empty) == types_of(full)
    else:
        assert empty.schema == full.schema


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_keeps_ciks_as_text(backend: str, driver: Driver) -> None:
    frame = driver.frame("screener", {"ticker": "ALI4"}, backend=backend)
    assert list(frame["cik"]) == ["0999001045"]


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_has_one_row_per_owner_and_columns_of_every_security(backend: str, driver: Driver) -> None:
    filings = driver.rows("ownership", ticker="GAP7")
    owners = driver.frame("ownership", {"ticker": "GAP7"}, backend=backend)
    assert len(owners) == sum(len(filing["owners"]) for filing in filings)
    ciks = [None if pd.isna(cik) else cik for cik in owners["owner_cik"]]
    assert ciks == [owner["owner_cik"] for filing in filings for owner in filing["owners"]]
    assert not {"owners", "owner_count"} & set(owners.columns)
    securities = driver.rows("dilution_data", ticker=["GAP7", "ALI4", "DIL5"])
    frame = driver.frame("dilution_data", {"ticker": ["GAP7", "ALI4", "DIL5"]}, backend=backend)
    assert len(frame) == len(securities)
    assert {"warrants_amount", "conversion_price"} <= set(frame.columns)


def test_has_the_lineage_only_if_requested(driver: Driver) -> None:
    followed = driver.frame("gap_stats", {"ticker": "GAP7", "follow_lineage": True})
    assert set(followed["lineage_ticker"]) == {"GPW8"}
    assert "lineage_ticker" not in driver.frame("gap_stats", GAPS).columns


def test_reads_only_the_first_rows_and_other_time_zones(driver: Driver) -> None:
    frame = driver.frame("intraday_runners", {}, max_rows=3, timezone="UTC")
    assert len(frame) == 3
    assert str(frame["last_updated"].dtype) == "datetime64[us, UTC]"
    assert len(driver.responses) == 1


@pytest.mark.parametrize("decimals", ["decimal", "float64", "arrow"])
@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_the_rows_of_pages_have_the_same_types_and_values_as_the_file(
    backend: str, decimals: str, driver: Driver
) -> None:
    for name, query in FRAMES:
        options = {"backend": backend, "decimals": decimals}
        complete = driver.frame(name, query, **options)
        paged = driver.frame(name, query, max_rows=100, **options)
        expected = complete.head(len(paged))
        assert len(paged) > 0
        if backend == "pandas":
            pd.testing.assert_frame_equal(paged, expected)
        else:
            pl_testing.assert_frame_equal(paged, expected, check_exact=True)


def test_costs_less_than_the_rows_as_ndjson(driver: Driver) -> None:
    driver.frame("intraday_runners", {})
    driver.rows("intraday_runners", limit="all")
    (_, frame), (_, rows) = driver.responses
    assert frame.cost_microdollars is not None
    assert rows.cost_microdollars is not None
    assert frame.cost_microdollars * 5 < rows.cost_microdollars


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_has_the_nearest_floats_and_keeps_digits_or_refuses_them(
    backend: Backend, driver: Driver, tmp_path: Path
) -> None:
    """Reads files with generated decimals, including long ones, as a wide column of the service may have."""
    random = Random(0)
    for precision, scale in ((18, 3), (18, 4), (20, 2), (38, 2)):
        limit = 10**precision - 1
        unscaled = [random.randint(-limit, limit) // 10 ** random.randint(0, precision) for _ in range(2_000)]
        values = [None, Decimal(0), *(Decimal(number).scaleb(-scale, Context(prec=38)) for number in unscaled)]
        file = tmp_path / "list.parquet"
        pq.write_table(pa.table({"market_open": pa.array(values, pa.decimal128(precision, scale))}), file)
        floats = FrameMaker(GAP_STATS_ENDPOINT, {}, backend, "float64", "UTC").from_file(file)["market_open"]
        expected = [None if value is None else float(value) for value in values]
        assert [None if value is None or math.isnan(value) else value for value in floats] == expected
        exact: tuple[Decimals, ...] = ("decimal", "arrow")
        for decimals in exact:
            maker = FrameMaker(GAP_STATS_ENDPOINT, {}, backend, decimals, "UTC")
            if precision == 38 and (backend, decimals) != ("pandas", "decimal"):
                with pytest.raises(ValueError, match="market_open has values with more than 38 digits"):
                    maker.from_file(file)
            else:
                found = maker.from_file(file)["market_open"]
                assert [None if value is None or pd.isna(value) else value for value in found] == values


def test_keeps_more_digits_than_usual_or_refuses_them(driver: Driver) -> None:
    (row, *_) = driver.rows("gap_stats", **GAPS)
    exact: Any = {**row, "market_open": Decimal("0.123456789")}
    maker = FrameMaker(GAP_STATS_ENDPOINT, {}, "polars", "arrow", "UTC")
    assert list(maker.from_rows([exact])["market_open"]) == [Decimal("0.123456789")]
    long: Any = {**row, "market_open": Decimal("1e36")}
    with pytest.raises(ValueError, match="market_open has values with more than 38 digits"):
        maker.from_rows([long])


def test_refuses_unknown_choices_and_names_missing_packages_before_the_request(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="backend must be"):
        driver.frame("gap_stats", GAPS, backend="dask")
    with pytest.raises(ValueError, match="decimals must be"):
        driver.frame("gap_stats", GAPS, decimals="float")
    for backend in ("pandas", "polars"):
        with pytest.raises(Exception, match="Mars/Olympus"):
            driver.frame("gap_stats", GAPS, backend=backend, timezone="Mars/Olympus")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"pip install 'tickerline\[polars\]'"):
        driver.frame("gap_stats", GAPS, backend="polars")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"package pyarrow: pip install 'tickerline\[pandas\]'"):
        driver.frame("gap_stats", GAPS)
    assert driver.responses == []
