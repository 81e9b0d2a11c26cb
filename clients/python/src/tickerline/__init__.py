"""Typed client for Tickerline, the market-data API.

>>> tickerline = Tickerline("https://api.example.com", api_key)
>>> tickerline.ticker_changes("OSTK").get()["results"][0]["current_ticker"]
>>> for row in tickerline.gap_stats(ticker="GAP7"):
...     print(row["date"], row["gap_percentage"])
"""

from . import types
from ._api_errors import (
    AddressNotAllowed,
    AmbiguousTickerLineage,
    ApiKeyDisabled,
    AsOfTooEarly,
    BadRequest,
    CursorExpired,
    DatabasePoolTimeout,
    DataRefreshing,
    EndpointNotAllowed,
    EndpointRemoved,
    InsufficientCredits,
    InsufficientTier,
    InternalError,
    InvalidApiKey,
    MethodNotAllowed,
    MissingApiKey,
    NotFound,
    NotReady,
    RateLimitExceeded,
    TooManyExports,
    TooManyStreams,
    ValidationError,
)
from ._calls import AsyncCall, AsyncListCall, AsyncRows, Call, ListCall, Rows
from ._changes import AsyncChanges, Changes
from ._client import AsyncTickerline, Tickerline
from ._errors import (
    ApiError,
    IncompleteExport,
    InvalidOptions,
    NoAnswer,
    TickerlineError,
    UnknownCode,
    UnreadableAnswer,
)
from ._exports import ExportFile
from ._metadata import DeprecationNotice, FollowedLineage, LineagePeriod, RateLimit, ResponseMetadata
from ._senders import Response
from ._version import __version__

__all__ = [
    "AddressNotAllowed",
    "AmbiguousTickerLineage",
    "ApiError",
    "ApiKeyDisabled",
    "AsOfTooEarly",
    "AsyncCall",
    "AsyncChanges",
    "AsyncListCall",
    "AsyncRows",
    "AsyncTickerline",
    "BadRequest",
    "Call",
    "Changes",
    "CursorExpired",
    "DataRefreshing",
    "DatabasePoolTimeout",
    "DeprecationNotice",
    "EndpointNotAllowed",
    "EndpointRemoved",
    "ExportFile",
    "FollowedLineage",
    "IncompleteExport",
    "InsufficientCredits",
    "InsufficientTier",
    "InternalError",
    "InvalidApiKey",
    "InvalidOptions",
    "LineagePeriod",
    "ListCall",
    "MethodNotAllowed",
    "MissingApiKey",
    "NoAnswer",
    "NotFound",
    "NotReady",
    "RateLimit",
    "RateLimitExceeded",
    "Response",
    "ResponseMetadata",
    "Rows",
    "Tickerline",
    "TickerlineError",
    "TooManyExports",
    "TooManyStreams",
    "UnknownCode",
    "UnreadableAnswer",
    "ValidationError",
    "__version__",
    "types",
]
