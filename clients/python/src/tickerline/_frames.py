"""Data frames whose column types follow from the contract, so that an empty list has the same columns as a full one."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
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


def make_frame(
    rows: Sequence[Row],
    endpoint: ListEndpoint[Body, Row],
    query: Query,
    backend: Backend,
    decimals: Decimals,
    timezone: str,
) -> "pandas.DataFrame | polars.DataFrame":
    if backend not in ("pandas", "polars"):
        raise ValueError(f"backend must be 'pandas' or 'polars', not {backend!r}")
    if decimals not in ("decimal", "float64", "arrow"):
        raise ValueError(f"decimals must be 'decimal', 'float64' or 'arrow', not {decimals!r}")
    fields = [field for field in endpoint.row.fields if field.name != "lineage_ticker" or query.get("follow_lineage")]
    records = cast("Sequence[Record]", rows)
    nested = [field for field in fields if isinstance(field.kind, Structure)]
    for field in nested:
        records = list(_unnest(records, field.name))
        fields = [*(known for known in fields if known is not field), *cast("Structure", field.kind).fields]
    columns = {field.name: [record.get(field.name) for record in records] for field in fields}
    make = _make_pandas if backend == "pandas" else _make_polars
    return make(fields, columns, decimals, timezone)


def _unnest(records: Iterable[Record], name: str) -> Iterator[Record]:
    """Yields one record per item of the list ``name``, as in CSV: one per owner for ``/v1/ownership``."""
    for record in records:
        for item in cast("list[Record]", record[name]) or [{}]:
            yield {**record, **item}


def _import(name: str, extra: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise ImportError(f"frame() needs the package {name}: pip install 'tickerline[{extra}]'") from error


def _utc(value: object) -> dt.datetime | None:
    moment = cast("dt.datetime | None", value)
    return None if moment is None else moment.astimezone(dt.timezone.utc).replace(tzinfo=None)


def _float(value: object) -> float | None:
    return None if value is None else float(cast("Decimal", value))


def _scale(name: str, values: Sequence[object]) -> int:
    scale = DECIMAL_SCALE
    for value in values:
        if isinstance(value, Decimal):
            exponent = value.as_tuple().exponent
            scale = max(scale, -exponent if isinstance(exponent, int) else 0)
    digits = max((value.adjusted() + 1 for value in values if isinstance(value, Decimal) and value), default=0)
    if digits + scale > DECIMAL_PRECISION:
        raise ValueError(f"{name} has values with more than {DECIMAL_PRECISION} digits; use decimals='float64'")
    return scale


def _make_pandas(
    fields: Sequence[Field], columns: Mapping[str, list[object]], decimals: Decimals, timezone: str
) -> "pandas.DataFrame":
    pd = _import("pandas", "pandas")

    def series(field: Field) -> Any:
        values = columns[field.name]
        is_nullable = field.nullable or not field.required
        if field.is_list or field.kind == "json":
            return pd.Series(values, dtype="object")
        if field.kind == "text":
            return pd.Series(values, dtype="string")
        if field.kind == "integer":
            return pd.Series(values, dtype="Int64" if is_nullable else "int64")
        if field.kind == "boolean":
            return pd.Series(values, dtype="boolean" if is_nullable else "bool")
        if field.kind == "date":
            return pd.Series(values, dtype="datetime64[us]")
        if field.kind == "datetime":
            moments = pd.Series([_utc(value) for value in values], dtype="datetime64[us]")
            return moments.dt.tz_localize("UTC").dt.tz_convert(timezone)
        if decimals == "float64":
            return pd.Series([_float(value) for value in values], dtype="float64")
        if decimals == "arrow":
            arrow = _import("pyarrow", "arrow")
            dtype = pd.ArrowDtype(arrow.decimal128(DECIMAL_PRECISION, _scale(field.name, values)))
            return pd.Series(values, dtype=dtype)
        return pd.Series(values, dtype="object")

    frame: pandas.DataFrame = pd.DataFrame({field.name: series(field) for field in fields})
    return frame


def _make_polars(
    fields: Sequence[Field], columns: Mapping[str, list[object]], decimals: Decimals, timezone: str
) -> "polars.DataFrame":
    pl = _import("polars", "polars")
    plain = {"text": pl.String, "integer": pl.Int64, "boolean": pl.Boolean, "date": pl.Date}

    def series(field: Field) -> Any:
        name, values = field.name, columns[field.name]
        if field.kind == "datetime":
            moments = pl.Series(name, [_utc(value) for value in values], dtype=pl.Datetime("us"))
            return moments.dt.replace_time_zone("UTC").dt.convert_time_zone(timezone)
        if field.kind == "decimal":
            if decimals == "float64":
                return pl.Series(name, [_float(value) for value in values], dtype=pl.Float64)
            return pl.Series(name, values, dtype=pl.Decimal(DECIMAL_PRECISION, _scale(name, values)))
        dtype = plain[cast("str", field.kind)]
        return pl.Series(name, values, dtype=pl.List(dtype) if field.is_list else dtype)

    frame: polars.DataFrame = pl.DataFrame([series(field) for field in fields])
    return frame
