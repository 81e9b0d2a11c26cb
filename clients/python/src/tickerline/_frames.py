"""Data frames whose column types follow from the contract, so that an empty list has the same columns as a full one."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ._queries import Query
from ._structures import Body, Field, ListEndpoint, Row, Structure

if TYPE_CHECKING:
    import pandas
    import polars

Backend: TypeAlias = Literal["pandas", "polars"]
Decimals: TypeAlias = Literal["decimal", "float64", "arrow"]

Record: TypeAlias = Mapping[str, object]

DECIMAL_PRECISION = 38
DECIMAL_SCALE = 4
"""Digits after the decimal point in a column. A column has more if one of its values has more."""

OF_GROUPS = {"owner_count"}
"""Fields of a group of rows. CSV and Parquet files do not have them."""


class FrameMaker:
    """Makes data frames of one backend."""

    def __init__(
        self,
        endpoint: ListEndpoint[Body, Row],
        query: Query,
        backend: Backend,
        decimals: Decimals,
        timezone: str,
    ) -> None:
        """Refuses unknown choices and missing packages, so that nobody pays for rows that would then be lost."""
        if backend not in ("pandas", "polars"):
            raise ValueError(f"backend must be 'pandas' or 'polars', not {backend!r}")
        if decimals not in ("decimal", "float64", "arrow"):
            raise ValueError(f"decimals must be 'decimal', 'float64' or 'arrow', not {decimals!r}")
        omitted = OF_GROUPS if query.get("follow_lineage") else {*OF_GROUPS, "lineage_ticker"}
        self._fields = [field for field in endpoint.row.fields if field.name not in omitted]
        self._backend = (_Pandas if backend == "pandas" else _Polars)(decimals, timezone)
        self.from_rows([])

    def from_rows(self, rows: Sequence[Row]) -> Any:
        records = cast("Sequence[Record]", rows)
        for field in self._fields:
            if isinstance(field.kind, Structure):
                records = list(_unnest(records, field.name))
        return self._backend.make(
            {
                field.name: self._backend.column_of_values(field, [record.get(field.name) for record in records])
                for field in self._columns()
            }
        )

    def from_file(self, file: Path) -> Any:
        """Reads a Parquet file. Columns that it lacks are null."""
        found, count = self._backend.read(file)
        return self._backend.make(
            {
                field.name: self._backend.column(field, found[field.name])
                if field.name in found
                else self._backend.column_of_values(field, [None] * count)
                for field in self._columns()
            }
        )

    def _columns(self) -> Iterator[Field]:
        """Yields the fields of rows, then those of the items of a list."""
        yield from (field for field in self._fields if not isinstance(field.kind, Structure))
        for field in self._fields:
            if isinstance(field.kind, Structure):
                yield from field.kind.fields


def _unnest(records: Iterable[Record], name: str) -> Iterator[Record]:
    """Yields one record per item of the list ``name``, as in CSV: one per owner for ``/v1/ownership``."""
    for record in records:
        for item in cast("list[Record]", record[name]) or [{}]:
            yield {**record, **item}


def _import(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"frame() needs the package {package}: pip install 'tickerline[{extra}]'") from error


def _utc(value: object) -> dt.datetime | None:
    moment = cast("dt.datetime | None", value)
    return None if moment is None else moment.astimezone(dt.timezone.utc)


def _scale(name: str, values: Sequence[object]) -> int:
    scale = DECIMAL_SCALE
    for value in values:
        if isinstance(value, Decimal):
            exponent = value.as_tuple().exponent
            scale = max(scale, -exponent if isinstance(exponent, int) else 0)
    digits = max((value.adjusted() + 1 for value in values if isinstance(value, Decimal) and value), default=0)
    if digits + scale > DECIMAL_PRECISION:
        raise _too_long(name)
    return scale


def _too_long(name: str) -> ValueError:
    return ValueError(f"{name} has values with more than {DECIMAL_PRECISION} digits; use decimals='float64'")


class _Pandas:
    """Columns are Arrow arrays until they become series."""

    def __init__(self, decimals: Decimals, timezone: str) -> None:
        self._decimals = decimals
        self._timezone = timezone
        self._pd = _import("pandas", "pandas")
        self._pa = _import("pyarrow", "pandas")
        self._parquet = _import("pyarrow.parquet", "pandas")

    def read(self, file: Path) -> tuple[Mapping[str, Any], int]:
        table = self._parquet.read_table(file)
        return {name: table[name] for name in table.column_names}, table.num_rows

    def column_of_values(self, field: Field, values: list[object]) -> Any:
        pa = self._pa
        if field.kind == "datetime":
            return self.column(field, pa.array([_utc(value) for value in values], pa.timestamp("us", "UTC")))
        if field.kind == "decimal":
            dtype = pa.decimal128(DECIMAL_PRECISION, _scale(field.name, values))
        else:
            types = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_(), "date": pa.date32()}
            dtype = types[cast("str", field.kind)]
        return self.column(field, pa.array(values, pa.list_(dtype) if field.is_list else dtype))

    def column(self, field: Field, values: Any) -> Any:
        pd, pa = self._pd, self._pa
        is_nullable = field.nullable or not field.required

        def convert(dtype: Any) -> Any:
            return values.to_pandas(types_mapper=lambda _: dtype)

        if field.is_list:
            return pd.Series(values.to_pylist(), dtype="object")
        if field.kind == "text":
            return convert(pd.StringDtype())
        if field.kind == "integer":
            return convert(pd.Int64Dtype()) if is_nullable else values.to_pandas()
        if field.kind == "boolean":
            return convert(pd.BooleanDtype()) if is_nullable else values.to_pandas()
        if field.kind == "date":
            return values.cast(pa.timestamp("us")).to_pandas()
        if field.kind == "datetime":
            return values.to_pandas().dt.tz_convert(self._timezone)
        if self._decimals == "float64":
            # Through text, because Arrow's direct conversion often misses the nearest float.
            return values.cast(pa.string()).cast(pa.float64()).to_pandas()
        if self._decimals == "arrow":
            try:
                exact = values.cast(pa.decimal128(DECIMAL_PRECISION, max(DECIMAL_SCALE, values.type.scale)))
            except pa.ArrowInvalid as error:
                raise _too_long(field.name) from error
            return exact.to_pandas(types_mapper=pd.ArrowDtype)
        return pd.Series(values.to_pylist(), dtype="object")

    def make(self, columns: Mapping[str, Any]) -> "pandas.DataFrame":
        frame: pandas.DataFrame = self._pd.DataFrame(columns)
        return frame


class _Polars:
    def __init__(self, decimals: Decimals, timezone: str) -> None:
        self._decimals = decimals
        self._timezone = timezone
        self._pl = _import("polars", "polars")

    def read(self, file: Path) -> tuple[Mapping[str, Any], int]:
        frame = self._pl.read_parquet(file)
        return {column.name: column for column in frame}, frame.height

    def column_of_values(self, field: Field, values: list[object]) -> Any:
        pl = self._pl
        if field.kind == "datetime":
            moments = pl.Series(field.name, [_utc(value) for value in values], dtype=pl.Datetime("us", "UTC"))
            return self.column(field, moments)
        if field.kind == "decimal":
            dtype = pl.Decimal(DECIMAL_PRECISION, _scale(field.name, values))
        else:
            types = {"text": pl.String, "integer": pl.Int64, "boolean": pl.Boolean, "date": pl.Date}
            dtype = types[cast("str", field.kind)]
        return self.column(field, pl.Series(field.name, values, dtype=pl.List(dtype) if field.is_list else dtype))

    def column(self, field: Field, values: Any) -> Any:
        pl = self._pl
        if field.kind == "datetime":
            return values.dt.convert_time_zone(self._timezone)
        if field.kind != "decimal":
            return values
        if self._decimals == "float64":
            return values.cast(pl.Float64)
        try:
            return values.cast(pl.Decimal(DECIMAL_PRECISION, max(DECIMAL_SCALE, values.dtype.scale)))
        except pl.exceptions.InvalidOperationError as error:
            raise _too_long(field.name) from error

    def make(self, columns: Mapping[str, Any]) -> "polars.DataFrame":
        frame: polars.DataFrame = self._pl.DataFrame(columns)
        return frame
