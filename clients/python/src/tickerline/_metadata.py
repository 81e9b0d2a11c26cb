"""Metadata in the headers of a response."""

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import unquote


@dataclass(frozen=True)
class DeprecationNotice:
    """The deprecation of an endpoint."""

    announced: dt.date
    sunset: dt.date | None
    """Date after which the endpoint may stop responding; None if none is set."""
    successor: str | None
    """URL of the replacement."""
    documentation: str | None
    """URL of the documentation."""


@dataclass(frozen=True)
class RateLimit:
    """The account's requests per minute. The full limit is available again after ``reset_seconds``."""

    limit: int
    remaining: int
    reset_seconds: int


@dataclass(frozen=True)
class LineagePeriod:
    """A symbol of a company. The company used it until the day before ``until``, which is None for the current one."""

    ticker: str
    until: dt.date | None


@dataclass(frozen=True)
class FollowedLineage:
    """A company whose rows ``follow_lineage`` returns, with its symbols (``X-Lineage``)."""

    periods: tuple[LineagePeriod, ...]
    """Oldest first."""
    omitted_rows: int
    """Number of omitted rows: those from days when no requested company used the symbol. 100 means at least 100."""


@dataclass(frozen=True)
class ResponseMetadata:
    """Metadata in the headers. Values are None if the response has no such header; proxies may remove headers."""

    status: int
    request_id: str
    """Identifies the request in ``/v1/usage`` and in messages to support."""
    attempts: int
    """Requests sent for this response; 1 without retries."""
    api_version: str | None
    cost_microdollars: int | None
    """Price of the response in millionths of a US dollar; None if it was free."""
    rate_limit: RateLimit | None
    as_of: dt.datetime | None
    """With ``as_of``: the time whose data the response contains."""
    dropped_tickers: tuple[str, ...]
    """Invalid symbols that the service ignored, at most 20."""
    lineages: tuple[FollowedLineage, ...]
    """One entry per company; empty without ``follow_lineage``."""
    more_lineages: int
    """Number of companies that ``lineages`` lacks, because the header would be too long."""
    omitted_types: tuple[str, ...]
    """Types of ``/v1/timeline`` that the account or key may not use."""
    empty_reason: str | None
    """With ``explain``: why there are no rows, such as ``unknown_symbol`` or ``filtered;without="min_gap"``."""
    next_page: str | None
    """URL of the next page of a list; None on the last page."""
    deprecated: DeprecationNotice | None
    retry_after_seconds: int | None
    """Minimum delay before a retry, after a 429 or 503."""


def parse_integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]+", text) else None


def _parse_http_date(text: str) -> dt.datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.timezone.utc)


def _parse_moment(text: str | None) -> dt.datetime | None:
    try:
        return None if text is None else dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Converts ``Retry-After``, which contains seconds or a date, to seconds from ``now`` (Unix time)."""
    seconds = parse_integer(text)
    if text is None or seconds is not None:
        return seconds
    moment = _parse_http_date(text)
    return None if moment is None else max(0.0, moment.timestamp() - now)


def _find_link(links: str, relation: str) -> str | None:
    for url, attributes in re.findall(r"<([^>]*)>([^<]*)", links):
        match = re.search(r';\s*rel=(?:"([^"]*)"|([^\s;,"]+))', attributes, re.IGNORECASE)
        if match and relation in f"{match[1] or ''} {match[2] or ''}".split():
            return str(url)
    return None


def _parse_deprecation(headers: Mapping[str, str]) -> DeprecationNotice | None:
    match = re.fullmatch(r"@(-?[0-9]{1,11})", headers.get("deprecation", ""))
    if match is None:
        return None
    sunset = _parse_http_date(headers.get("sunset", ""))
    links = headers.get("link", "")
    return DeprecationNotice(
        announced=dt.datetime.fromtimestamp(int(match[1]), dt.timezone.utc).date(),
        sunset=None if sunset is None else sunset.astimezone(dt.timezone.utc).date(),
        successor=_find_link(links, "successor-version"),
        documentation=_find_link(links, "deprecation"),
    )


def _parse_lineages(header: str) -> tuple[tuple[FollowedLineage, ...], int]:
    """Parses ``OSTK..2023-11-06, BYON;outside=3, AAPL;more=7``. A company's last symbol has no date."""
    more = 0
    lineages: list[FollowedLineage] = []
    periods: list[LineagePeriod] = []
    for entry in filter(None, (text.strip() for text in header.split(","))):
        symbol, _, parameters = entry.partition(";")
        former = re.fullmatch(r"(.+)\.\.(\d{4}-\d\d-\d\d)", symbol)
        if former:
            periods.append(LineagePeriod(former[1], dt.date.fromisoformat(former[2])))
            continue
        periods.append(LineagePeriod(symbol, None))
        counts = {name: int(count) for name, count in re.findall(r"(outside|more)=([0-9]+)", parameters)}
        lineages.append(FollowedLineage(tuple(periods), counts.get("outside", 0)))
        more += counts.get("more", 0)
        periods = []
    return tuple(lineages), more


def _parse_rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    limit, remaining, reset = (parse_integer(headers.get(f"x-ratelimit-{name}")) for name in _rate_limit_headers)
    return None if limit is None or remaining is None or reset is None else RateLimit(limit, remaining, reset)


_rate_limit_headers = ("limit", "remaining", "reset")


def _split(header: str) -> tuple[str, ...]:
    return tuple(unquote(part.strip()) for part in header.split(",") if part.strip())


def read_metadata(
    status: int, headers: Mapping[str, str], *, attempts: int, now: float, sent_request_id: str
) -> ResponseMetadata:
    """Reads the headers, whose names are in lower case. ``now`` is the Unix time."""
    retry_after = parse_retry_after(headers.get("retry-after"), now)
    lineages, more_lineages = _parse_lineages(headers.get("x-lineage", ""))
    return ResponseMetadata(
        status=status,
        request_id=headers.get("x-request-id", sent_request_id),
        attempts=attempts,
        api_version=headers.get("x-api-version"),
        cost_microdollars=parse_integer(headers.get("x-cost-microdollars")),
        rate_limit=_parse_rate_limit(headers),
        as_of=_parse_moment(headers.get("x-as-of")),
        dropped_tickers=_split(headers.get("x-dropped-tickers", "")),
        lineages=lineages,
        more_lineages=more_lineages,
        omitted_types=_split(headers.get("x-omitted-types", "")),
        empty_reason=headers.get("x-empty-reason"),
        next_page=_find_link(headers.get("link", ""), "next"),
        deprecated=_parse_deprecation(headers),
        retry_after_seconds=None if retry_after is None else math.ceil(retry_after),
    )
