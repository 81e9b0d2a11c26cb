"""Reads a Parquet file of several row groups with filters, in DuckDB, pyarrow, pandas and polars.

These readers skip a row group whose minimum and maximum exclude the filtered values. Wrong statistics lose rows.
"""

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tickerline import Tickerline

from .large_service import STARTS, running_large_service
from .service import Service
from .test_parquet import READERS, Rows, flat, plain


@dataclass(frozen=True)
class Export:
    """The Parquet file of a list, and the rows of its NDJSON."""

    file: Path
    rows: Rows


@pytest.fixture(scope="module")
def large_service() -> Iterator[Service]:
    with running_large_service() as service:
        yield service


def export(service: Service, folder: Path, query: Mapping[str, Any]) -> Export:
    with Tickerline(service.url, service.key) as client:
        call = client.dilution_data_advanced
        file = call(**query).download(folder / "list.parquet").path
        rows = [dict(row) for row in call(**query, limit="all").rows()]
    return Export(file, flat(rows, pq.read_schema(file).names))


@pytest.fixture(scope="module")
def complete(large_service: Service, tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export(large_service, tmp_path_factory.mktemp("complete"), {})


@dataclass(frozen=True)
class Filter:
    """Keeps the rows with ``least <= row[column] <= greatest``."""

    column: str
    least: Any
    greatest: Any

    def matches(self, row: Mapping[str, Any]) -> bool:
        value = row[self.column]
        return value is not None and bool(self.least <= value <= self.greatest)


Read = Callable[[Path, Filter], list[str]]


def read_with_duckdb(file: Path, wanted: Filter) -> list[str]:
    condition = "= $least" if wanted.least == wanted.greatest else "between $least and $greatest"
    values = {"file": str(file), "least": wanted.least}
    if wanted.least != wanted.greatest:
        values["greatest"] = wanted.greatest
    found = duckdb.execute(f'select id from read_parquet($file) where "{wanted.column}" {condition}', values)
    return [name for (name,) in found.fetchall()]


def triples(file: Path, wanted: Filter) -> list[tuple[str, str, Any]]:
    if wanted.least == wanted.greatest:
        return [(wanted.column, "==", wanted.least)]
    return [(wanted.column, ">=", wanted.least), (wanted.column, "<=", wanted.greatest)]


def read_with_pyarrow(file: Path, wanted: Filter) -> list[str]:
    found: list[str] = pq.read_table(file, columns=["id"], filters=triples(file, wanted)).column("id").to_pylist()
    return found


def read_with_pandas(file: Path, wanted: Filter) -> list[str]:
    return list(pd.read_parquet(file, columns=["id"], filters=triples(file, wanted))["id"])


def read_with_polars(file: Path, wanted: Filter) -> list[str]:
    dtype = pl.scan_parquet(file).collect_schema()[wanted.column]
    column, least, greatest = pl.col(wanted.column), pl.lit(wanted.least, dtype), pl.lit(wanted.greatest, dtype)
    condition = column == least if wanted.least == wanted.greatest else column.is_between(least, greatest)
    return list(pl.scan_parquet(file).filter(condition).select("id").collect()["id"])


FILTERED: list[Read] = [read_with_duckdb, read_with_pyarrow, read_with_pandas, read_with_polars]


def in_utc(value: Any) -> Any:
    return value.astimezone(dt.timezone.utc) if isinstance(value, dt.datetime) else value


def make_filters(rows: Rows, column: str) -> Iterator[Filter]:
    """Makes filters for values from all parts of the file: each value, and the range to the next greater one."""
    size = len(rows) // 5 + 1
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    present = [[row[column] for row in part if row[column] is not None] for part in parts]
    chosen = sorted({in_utc(values[len(values) // 3]) for values in present if values})
    yield from (Filter(column, value, value) for value in chosen)
    yield from (Filter(column, *pair) for pair in itertools.pairwise(chosen))


def test_finds_all_rows_by_the_values_of_any_column(complete: Export) -> None:
    assert pq.read_metadata(complete.file).num_row_groups > 2
    lists = {name for name, value in complete.rows[0].items() if isinstance(value, list)}
    filtered = set()
    for column in complete.rows[0].keys() - lists:
        for wanted in make_filters(complete.rows, column):
            expected = [row["id"] for row in complete.rows if wanted.matches(row)]
            for read in FILTERED:
                assert read(complete.file, wanted) == expected, (read.__name__, wanted)
            filtered.add(column)
    types = {type(row[name]) for row in complete.rows for name in filtered}
    assert types >= {str, int, bool, Decimal, dt.date, dt.datetime}


def test_finds_all_rows_by_the_elements_of_a_list(complete: Export) -> None:
    for owner in ["Owner 0", "Owner 100", "Owner 239", f"{STARTS[-1]}!"]:
        expected = [row["id"] for row in complete.rows if owner in row["owners"]]
        assert expected
        found = duckdb.execute(
            "select id from read_parquet($file) where list_contains(owners, $owner)",
            {"file": str(complete.file), "owner": owner},
        ).fetchall()
        assert [name for (name,) in found] == expected
        table = pq.read_table(complete.file, columns=["id", "owners"])
        flattened = pc.list_parent_indices(table["owners"]).filter(pc.equal(pc.list_flatten(table["owners"]), owner))
        assert table["id"].take(flattened.unique()).to_pylist() == expected
        frame = pd.read_parquet(complete.file, columns=["id", "owners"])
        assert list(frame["id"][[owner in owners for owners in frame["owners"]]]) == expected
        scanned = pl.scan_parquet(complete.file).filter(pl.col("owners").list.contains(owner)).select("id").collect()
        assert list(scanned["id"]) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"security_type": "warrant"},
        {"filed_at_from": "1965-01-01", "filed_at_to": "1990-12-31"},
        {"min_floor_price": -1_000, "max_floor_price": 1_000.5},
        {"ticker": ["PQ1", "PQ2", "PQ3"]},
        {"owner": "Owner 1"},
    ],
    ids=str,
)
def test_has_the_values_of_the_ndjson_of_the_same_request(
    query: dict[str, Any], large_service: Service, tmp_path: Path
) -> None:
    found = export(large_service, tmp_path, query)
    assert found.rows
    for read in READERS:
        assert plain(read(found.file)) == found.rows, read.__name__
