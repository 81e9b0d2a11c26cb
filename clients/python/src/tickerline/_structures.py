"""Decodes JSON according to the contract: dates, datetimes and decimals become Python objects."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, Literal, NoReturn, TypeVar, cast

Body = TypeVar("Body")
Row = TypeVar("Row")

Kind = Literal["text", "integer", "decimal", "boolean", "date", "datetime", "json"]


class Mismatch(ValueError):
    """The JSON does not match the contract."""


def _text(value: object) -> object:
    # Any text is accepted as an enum value, because a newer service may have more values (§9.3).
    return value if isinstance(value, str) else _refuse("text", value)


def _integer(value: object) -> object:
    if type(value) is int:
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return _refuse("an integer", value)


def _decimal(value: object) -> object:
    # A decimal without a fraction, such as 5.00, is sent as 5.
    if isinstance(value, Decimal):
        return value
    return Decimal(value) if type(value) is int else _refuse("a number", value)


def _boolean(value: object) -> object:
    return value if isinstance(value, bool) else _refuse("true or false", value)


def _date(value: object) -> object:
    try:
        return dt.date.fromisoformat(cast("str", value))
    except (TypeError, ValueError):
        return _refuse("a date", value)


def _datetime(value: object) -> object:
    try:
        moment = dt.datetime.fromisoformat(cast("str", value))
    except (TypeError, ValueError):
        return _refuse("a datetime", value)
    return _refuse("a datetime with an offset", value) if moment.tzinfo is None else moment


def _json(value: object) -> object:
    return value


def _refuse(expected: str, value: object) -> NoReturn:
    raise Mismatch(f"expected {expected}, got {value!r:.100}")


Decode = Callable[[object], object]

_decoders: dict[Kind, Decode] = {
    "text": _text,
    "integer": _integer,
    "decimal": _decimal,
    "boolean": _boolean,
    "date": _date,
    "datetime": _datetime,
    "json": _json,
}


class Field:
    """A field of a structure."""

    def __init__(
        self,
        name: str,
        kind: "Kind | Structure",
        *,
        nullable: bool = False,
        required: bool = True,
        is_list: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.nullable = nullable
        self.required = required
        self.is_list = is_list
        self.decode = self._make_decoder()

    def _make_decoder(self) -> Decode:
        decode = self.kind.decode if isinstance(self.kind, Structure) else _decoders[self.kind]
        if not self.is_list:
            return decode

        def decode_list(value: object) -> object:
            return [decode(item) for item in value] if isinstance(value, list) else _refuse("a list", value)

        return decode_list


class Structure:
    """A JSON object. Fields that the contract does not know are kept unchanged."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self._decoders = [(field.name, field.decode, field.nullable, field.required) for field in fields]

    def decode(self, value: object) -> object:
        """Decodes the fields in place. Raises ``Mismatch``, which names the field."""
        if not isinstance(value, dict):
            return _refuse("an object", value)
        for name, decode, nullable, required in self._decoders:
            field = value.get(name, _missing)
            if field is None and nullable:
                continue
            if field is _missing:
                if required:
                    raise Mismatch(f"{name} is missing")
                continue
            try:
                value[name] = decode(field)
            except Mismatch as mismatch:
                raise Mismatch(f"{name}: {mismatch}") from None
        return value


_missing = object()


@dataclass(frozen=True)
class Endpoint(Generic[Body]):
    """An endpoint. ``body`` is None if the contract does not describe the response."""

    path: str
    body: Structure | None

    def decode_body(self, value: object) -> Body:
        # The type checker cannot verify the cast, but the type and the structure are generated from the same schema.
        return cast("Body", value if self.body is None else self.body.decode(value))


@dataclass(frozen=True)
class ListEndpoint(Endpoint[Body], Generic[Body, Row]):
    """An endpoint with paginated responses."""

    row: Structure

    def decode_row(self, value: object) -> Row:
        return cast("Row", self.row.decode(value))

    def results(self, body: Body) -> list[Row]:
        return cast("list[Row]", cast("dict[str, object]", body)["results"])

    def next_page(self, body: Body) -> int | None:
        """Returns the number of the next page; None after the last page."""
        page = cast("dict[str, object]", body)
        return cast("int", page["page"]) + 1 if page["has_more"] else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


parse_json: Callable[[str], object] = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant).decode
"""Parses JSON. Numbers with a fraction or an exponent become ``Decimal``, with all digits. Raises ``ValueError``."""
