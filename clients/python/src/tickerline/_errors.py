"""The exceptions that the client raises. Those with a code of the API are generated in ``_api_errors.py``."""

from typing import Literal


class TickerlineError(Exception):
    """Base of all exceptions of this package.

    ``code`` identifies the error: a code of the API, such as ``ambiguous_ticker_lineage``, or one of ``no_answer``,
    ``unreadable_answer``, ``incomplete_export`` and ``invalid_options``.
    """

    code: str = ""
    message: str
    status: int | None = None
    """HTTP status; None if there was no response."""
    request_id: str | None = None
    """Identifies the request in ``/v1/usage`` and in messages to support. None if no request was sent."""
    retry_after_seconds: int | None = None
    """Minimum delay before another attempt; None if the response states none."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        facts = [str(self.status)] if self.status is not None else []
        facts += [self.code] if self.code else []
        facts += [f"request {self.request_id}"] if self.request_id is not None else []
        return f"{self.message} ({', '.join(facts)})" if facts else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the constructor with `args`, but subclasses need more arguments.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(cls: type[TickerlineError], args: tuple[object, ...], state: dict[str, object]) -> TickerlineError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class InvalidOptions(TickerlineError, ValueError):
    """The options of the client are invalid. The message names the option and never contains the key."""

    code = "invalid_options"


class NoAnswer(TickerlineError):
    """No complete response arrived: the connection failed or was lost, or the last attempt timed out."""

    code = "no_answer"
    reason: Literal["connection", "timeout"]
    attempts: int

    def __init__(
        self, message: str, *, reason: Literal["connection", "timeout"], request_id: str, attempts: int
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.request_id = request_id
        self.attempts = attempts


class UnreadableAnswer(TickerlineError):
    """The response is not from this API, but from a load balancer, a login page or another program."""

    code = "unreadable_answer"
    body: str
    """The first 1,000 characters of the response."""

    def __init__(self, message: str, *, status: int, request_id: str, body: str) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.body = body


class IncompleteExport(TickerlineError):
    """A ``limit=all`` response ended early, or its rows differ from those that the service sent.

    Rows that were already returned may be wrong if ``reason`` is ``digest``. Otherwise, they are right but incomplete.
    """

    code = "incomplete_export"
    reason: Literal["connection", "row_count", "digest"]
    rows_received: int
    rows_expected: int | None
    """The number of rows in the header ``X-Row-Count``."""

    def __init__(
        self,
        message: str,
        *,
        reason: Literal["connection", "row_count", "digest"],
        rows_received: int,
        rows_expected: int | None,
        request_id: str,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.rows_received = rows_received
        self.rows_expected = rows_expected
        self.status = 200
        self.request_id = request_id


class ApiError(TickerlineError):
    """An error that the API returned. Its subclasses have typed ``details``."""

    details: object

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        details: object,
        request_id: str,
        retry_after_seconds: int | None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = details
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds


class UnknownCode(ApiError):
    """An error whose code or details this version of the client does not know, usually from a newer service."""
