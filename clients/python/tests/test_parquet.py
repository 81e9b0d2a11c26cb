"""Reads the Parquet file of every list with DuckDB, pyarrow, pandas and polars, and compares it with the NDJSON."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tickerline import Tickerline, _contract
from tickerline._structures import ListEndpoint

from .service import Service

Rows = list[dict[str, Any]]


def read_with_duckdb(file: Path) -> Rows:
    rows: Rows = duckdb.read_parquet(str(file)).to_arrow_table().to_pylist()
    return rows


def read_with_pyarrow(file: Path) -> Rows:
    rows: Rows = pq.read_table(file).to_pylist()
    return rows


def read_with_pandas(file: Path) -> Rows:
    frame = pd.read_parquet(file, dtype_backend="pyarrow")
    return [
        {str(name): None if not is_list(value) and pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def read_with_polars(file: Path) -> Rows:
    return pl.read_parquet(file).to_dicts()


READERS: list[Callable[[Path], Rows]] = [read_with_duckdb, read_with_pyarrow, read_with_pandas, read_with_polars]


def is_list(value: object) -> bool:
    return not isinstance(value, str) and hasattr(value, "__len__")


def plain(rows: Rows) -> Rows:
    """Converts the list types of all libraries to lists. Decimals and datetimes already compare by value."""
    return [{name: list(value) if is_list(value) else value for name, value in row.items()} for row in rows]


def flat(rows: Rows, columns: list[str]) -> Rows:
    """Returns one row per owner of a filing. A column that a row lacks is null."""
    records = [{**row, **owner} for row in rows for owner in (row["owners"] if "owner_count" in row else [row])]
    return [{name: record.get(name) for name in columns} for record in records]


ENDPOINTS = {
    name.removesuffix("_ENDPOINT").lower(): endpoint
    for name, endpoint in vars(_contract).items()
    if isinstance(endpoint, ListEndpoint)
}

# Endpoints whose rows change with the requests of the test itself.
CHANGING = {"usage", "usage_daily", "account_api_keys"}

CALLS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ENDPOINTS),
    ("historical_float_pro", {"provenance": True}),
    ("ownership", {"provenance": True}),
    ("gap_stats", {"ticker": "GAP7", "follow_lineage": True}),
]


@pytest.mark.parametrize(("name", "query"), CALLS, ids=lambda value: str(value))
def test_has_the_values_of_the_ndjson(name: str, query: dict[str, Any], service: Service, tmp_path: Path) -> None:
    with Tickerline(service.url, service.key) as client:
        method = getattr(client, name)
        required = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is inspect.Parameter.empty
        ]
        query = {**dict.fromkeys(required, "GAP7"), **query}
        file = method(**query).download(tmp_path / "list.parquet")
        expected = [dict(row) for row in method(**query, limit="all").rows()]
    assert file.is_digest_verified
    schema = pq.read_schema(file.path)
    assert not any(pa.types.is_floating(field.type) for field in schema)
    assert {field.type for field in schema if pa.types.is_timestamp(field.type)} <= {pa.timestamp("us", "UTC")}
    assert schema.metadata[b"tickerline.endpoint"].decode() == ENDPOINTS[name].path
    assert int(schema.metadata[b"tickerline.row_count"]) == file.rows
    rows = flat(expected, schema.names)
    requested = {"follow_lineage": "lineage_ticker", "provenance": "source"}
    optional = {column for parameter, column in requested.items() if parameter not in query}
    assert set(schema.names) == set(method(**query).frame("polars", max_rows=0).columns) - optional
    for read in READERS:
        actual = plain(read(file.path))
        assert len(actual) == file.rows
        if name not in CHANGING:
            assert actual == rows, read.__name__


def test_reads_selected_rows_of_a_file(service: Service, tmp_path: Path) -> None:
    with Tickerline(service.url, service.key) as client:
        file = client.intraday_runners().download(tmp_path / "runners.parquet")
        expected = list(client.intraday_runners(ticker="GAP7", limit="all").rows())
    caps = [row["market_cap"] for row in expected if row["market_cap"] is not None]
    found = duckdb.read_parquet(str(file.path)).filter("ticker = 'GAP7' and market_cap is not null")
    assert found.aggregate("count(*), sum(market_cap)").fetchall() == [(len(caps), sum(caps))]
    lazy = pl.scan_parquet(file.path).filter(pl.col("ticker") == "GAP7", pl.col("market_cap").is_not_null())
    assert lazy.select(pl.col("market_cap").sum()).collect().item() == sum(caps)
