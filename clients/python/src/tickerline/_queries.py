"""Query parameters. The client does not validate them: the service does, and raises ``ValidationError``."""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, TypeVar
from urllib.parse import quote

Item = TypeVar("Item")

OneOrMore: TypeAlias = Item | Sequence[Item]
"""A single value, or several."""

Number: TypeAlias = int | float | Decimal | str
"""A bound of a filter. ``Decimal`` and text keep all digits."""

QueryValue: TypeAlias = str | int | float | Decimal | bool | dt.date | Sequence[str]
Query: TypeAlias = Mapping[str, QueryValue | Mapping[str, QueryValue] | None]


def _encode_value(value: QueryValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.date):
        return value.isoformat()
    return ",".join(map(_quote_item, value))


def _quote_item(item: str) -> str:
    """Puts an item in double quotes if it would otherwise be read as several items or as a printed list."""
    if any(character in item for character in ',"()[]{}') or item != item.strip():
        return '"' + item.replace('"', '""') + '"'
    return item


def encode_query(query: Query) -> str:
    """Encodes the parameters as ``?a=1&b=2``, without those that are None. A mapping is a set of parameters."""
    parameters: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, Mapping):
            parameters += [(key, _encode_value(part)) for key, part in value.items()]
        elif value is not None:
            parameters.append((name, _encode_value(value)))
    encoded = "&".join(f"{quote(name, safe='')}={quote(value, safe=',')}" for name, value in parameters)
    return f"?{encoded}" if encoded else ""
