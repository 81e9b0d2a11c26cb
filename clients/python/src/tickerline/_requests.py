"""The parts of both clients that do no input or output: options, headers, retries, decoding of responses."""

import random
import re
import ssl
import sys
import time
import urllib.request
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

import anyio
import httpcore
import httpx

from ._api_errors import ERRORS
from ._errors import ApiError, InvalidOptions, NoAnswer, TickerlineError, UnknownCode, UnreadableAnswer
from ._metadata import DeprecationNotice, ResponseMetadata, parse_retry_after, read_metadata
from ._queries import Query, encode_query
from ._retries import RetryPolicy
from ._structures import Body, Endpoint, Field, Mismatch, Structure, parse_json
from ._version import __version__

TRANSPORT_ERRORS = (
    httpx.RequestError,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
)

OnResponse = Callable[[str, ResponseMetadata], None]


@dataclass(frozen=True)
class Timing:
    """Clock, waits and randomness, which tests replace."""

    now: Callable[[], float] = time.time
    """Unix time, seconds."""
    random: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic
    """Seconds since an arbitrary point in time."""
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = anyio.sleep


def _parse_base_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise InvalidOptions("base_url must be a URL such as https://api.example.com, without a query")
    return str(url).rstrip("/")


# A line break could inject a header. The error for other characters would quote the value, even a key.
_header_value = re.compile(r"[\x20-\x7e]*")


def _make_headers(api_key: str | None, user_agent: str | None, headers: Mapping[str, str]) -> dict[str, str]:
    key = None if api_key is None else api_key.strip()
    if key is not None and not re.fullmatch(r"[\x21-\x7e]+", key):
        raise InvalidOptions("api_key must not be empty or contain spaces")
    for name, value in {**headers, "user_agent": user_agent or ""}.items():
        if not _header_value.fullmatch(value):
            raise InvalidOptions(f"{name} must contain only printable ASCII characters")
    own_name = f"tickerline-python/{__version__}"
    return {
        "Accept": "application/json",
        **headers,
        "User-Agent": own_name if user_agent is None else f"{user_agent} {own_name}",
        **({} if key is None else {"Authorization": f"Bearer {key}"}),
    }


def has_environment_proxy() -> bool:
    """Whether httpx would use a proxy from environment variables, which a transport of our own would bypass."""
    return not {"http", "https", "all"}.isdisjoint(urllib.request.getproxies())


@dataclass(frozen=True)
class Caller:
    """The line that called the client. Python shows a ``DeprecationWarning`` only if it is in the main program."""

    file: str
    line: int
    module: str


def find_caller() -> Caller:
    """Finds the innermost caller outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return Caller(frame.f_code.co_filename, frame.f_lineno, str(frame.f_globals.get("__name__", "")))


class Settings:
    """The validated options of a client."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        retries: int,
        longest_wait: float,
        timeout: float,
        user_agent: str | None,
        headers: Mapping[str, str] | None,
        on_response: OnResponse | None,
        timing: Timing | None,
    ) -> None:
        self.timing = timing or Timing()
        self.base_url = _parse_base_url(base_url)
        self.headers = _make_headers(api_key, user_agent, headers or {})
        self.timeout = timeout
        self.retry_policy = RetryPolicy(retries, longest_wait, self.timing.random)
        self._on_response = on_response
        self._reported_deprecations: set[str] = set()

    def make_ssl_context(self) -> ssl.SSLContext | None:
        """Makes the TLS context; None for an ``http:`` address, because reading the certificates takes some time."""
        return httpx.create_ssl_context() if self.base_url.startswith("https:") else None

    def report(self, path: str, metadata: ResponseMetadata, caller: Caller) -> None:
        """Calls ``on_response`` and warns once for each deprecated endpoint."""
        if metadata.deprecated is not None and path not in self._reported_deprecations:
            self._reported_deprecations.add(path)
            message = _deprecation_message(path, metadata.deprecated)
            warnings.warn_explicit(message, DeprecationWarning, caller.file, caller.line, caller.module)
        if self._on_response is not None:
            self._on_response(path, metadata)


def _deprecation_message(path: str, notice: DeprecationNotice) -> str:
    sunset = "" if notice.sunset is None else f" and may stop responding after {notice.sunset}"
    successor = "" if notice.successor is None else f" Use {notice.successor}"
    documentation = "" if notice.documentation is None else f" See {notice.documentation}"
    return f"{path} is deprecated{sunset}.{successor}{documentation}"


class Exchange:
    """A call with all its attempts."""

    def __init__(self, settings: Settings, path: str, query: Query) -> None:
        self.settings = settings
        self.path = path
        self.url = f"{settings.base_url}{path}{encode_query(query)}"
        self.timeout = httpx.Timeout(settings.timeout)
        self.attempts = 0
        self._request_id = ""

    def start_attempt(self) -> dict[str, str]:
        """Returns the headers of the next request. Each attempt has its own request id."""
        self.attempts += 1
        self._request_id = str(uuid4())
        return {**self.settings.headers, "X-Request-Id": self._request_id}

    def delay_after_response(self, response: httpx.Response) -> float | None:
        """Returns the seconds before the next attempt; None if the response needs no other attempt."""
        retry_after = parse_retry_after(response.headers.get("retry-after"), self.settings.timing.now())
        return self.choose_delay(response.status_code, retry_after)

    def choose_delay(self, status: int | None, retry_after: float | None) -> float | None:
        """Returns the seconds before the next attempt; None for no other. ``status`` is None if no response arrived."""
        return self.settings.retry_policy.delay(status, retry_after, self.attempts)

    def delay_after_failure(self, error: Exception) -> float:
        """Returns the seconds before the next attempt. Raises ``NoAnswer`` to give up."""
        delay = self.choose_delay(None, None)
        if delay is not None:
            return delay
        is_timeout = isinstance(error, (httpx.TimeoutException, httpcore.TimeoutException))
        problem = (
            f"sent nothing for {self.settings.timeout:g} seconds"
            if is_timeout
            else f"got no response: the connection failed or was lost: {error}"
        )
        suffix = "" if self.attempts == 1 else f" ({self.attempts} attempts)"
        raise NoAnswer(
            f"{self.path} {problem}{suffix}",
            reason="timeout" if is_timeout else "connection",
            request_id=self._request_id,
            attempts=self.attempts,
        ) from error

    def read_metadata(self, response: httpx.Response) -> ResponseMetadata:
        return read_metadata(
            response.status_code,
            response.headers,
            attempts=self.attempts,
            now=self.settings.timing.now(),
            sent_request_id=self._request_id,
        )


def decode_response(endpoint: Endpoint[Body], metadata: ResponseMetadata, text: str) -> Body:
    """Returns the body of a 200; raises the error of any other response."""
    if metadata.status != 200:
        raise decode_error(endpoint.path, metadata, text)
    try:
        value = parse_json(text)
    except ValueError:
        raise not_json(endpoint.path, metadata, text) from None
    try:
        return endpoint.decode_body(value)
    except Mismatch as mismatch:
        raise mismatched(endpoint.path, metadata, text, mismatch) from None


def not_json(path: str, metadata: ResponseMetadata, text: str) -> UnreadableAnswer:
    message = f"{path} returned {metadata.status} without JSON. Does base_url point to Tickerline?"
    return _unreadable(metadata, text, message)


def mismatched(path: str, metadata: ResponseMetadata, text: str, mismatch: Mismatch) -> UnreadableAnswer:
    return _unreadable(metadata, text, f"The response of {path} does not match this client: {mismatch}")


def _unreadable(metadata: ResponseMetadata, text: str, message: str) -> UnreadableAnswer:
    return UnreadableAnswer(message, status=metadata.status, request_id=metadata.request_id, body=text[:1000])


_ERROR_BODY = Structure(
    Field("error", Structure(Field("code", "text"), Field("message", "text"), Field("details", "json", required=False)))
)


def decode_error(path: str, metadata: ResponseMetadata, text: str) -> TickerlineError:
    try:
        body = parse_json(text)
    except ValueError:
        return not_json(path, metadata, text)
    try:
        _ERROR_BODY.decode(body)
    except Mismatch:
        message = f"{path} returned {metadata.status}, but the body is not a Tickerline error"
        return _unreadable(metadata, text, message)
    match body:
        case {"error": {"code": str(code), "message": str(message), **rest}}:
            error_class, details = _find_class(code, rest.get("details"))
        case _:
            raise AssertionError
    return error_class(
        message,
        code=code,
        status=metadata.status,
        details=details,
        request_id=metadata.request_id,
        retry_after_seconds=metadata.retry_after_seconds,
    )


def _find_class(code: str, details: object) -> tuple[type[ApiError], object]:
    """Returns the first error class for the code whose details match, or ``UnknownCode``; and the decoded details."""
    for error_class, structure in ERRORS.get(code, ()):
        if structure is None:
            return error_class, details
        try:
            return error_class, structure.decode(details)
        except Mismatch:
            continue
    return UnknownCode, details
