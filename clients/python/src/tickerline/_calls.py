"""Requests to an endpoint, which are sent by ``get``, ``pages``, ``rows``, ``frame`` or ``estimate``."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Generic, Literal, overload
from urllib.parse import parse_qs, urlsplit

from . import _contract, types
from ._errors import IncompleteExport
from ._exports import ExportFile, ExportReader, ExportWriter, FileFormat, OutputFile
from ._frames import Backend, Decimals, FrameMaker
from ._metadata import ResponseMetadata
from ._queries import Query
from ._requests import TRANSPORT_ERRORS, Caller, find_caller
from ._senders import AsyncSender, Response, Sender
from ._structures import Body, Endpoint, ListEndpoint, Row

if TYPE_CHECKING:
    import pandas
    import polars

MAX_PAGE_ROWS = 100


@dataclass
class Reading:
    """Facts about the rows that have been read so far."""

    metadata: ResponseMetadata | None = None
    """The metadata of the last response."""
    cost_microdollars: int = 0
    """The total cost of the responses. With ``limit="all"`` it is known after the last row."""
    rows_expected: int | None = None
    """The number of rows that the service announced, with ``limit="all"``."""
    is_digest_verified: bool = False
    """With ``limit="all"``: whether a digest followed the last row and matched. A proxy may remove the digest."""

    def _add_page(self, metadata: ResponseMetadata) -> None:
        self.metadata = metadata
        self.cost_microdollars += metadata.cost_microdollars or 0

    def _add_export(self, reader: "ExportReader[Body, Row]") -> None:
        self.metadata = reader.metadata
        self.cost_microdollars = reader.metadata.cost_microdollars or 0
        self.rows_expected = reader.rows_expected
        self.is_digest_verified = reader.is_digest_verified


def _next_query(query: Query, page: int, metadata: ResponseMetadata) -> Query:
    """Returns the query of the next page. All pages are of the moment of the first.

    They begin where the page before ended, if the link to them says where that is.
    """
    if query.get("as_of") == "now" and metadata.as_of is not None:
        query = {**query, "as_of": metadata.as_of.isoformat(timespec="microseconds")}
    [after] = parse_qs(urlsplit(metadata.next_page or "").query).get("after", [None])
    return {**query, "after": after, "page": page}


class Rows(Reading, Iterator[Row]):
    """The rows of all pages, or of a complete list. Close it, or use ``with``, if you stop early."""

    def __init__(self, sender: Sender, endpoint: ListEndpoint[Body, Row], query: Query, caller: Caller) -> None:
        super().__init__()
        read = self._export if query.get("limit") == "all" else self._pages
        self._rows = read(sender, endpoint, query, caller)

    def __next__(self) -> Row:
        return next(self._rows)

    def __enter__(self) -> "Rows[Row]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the response. Rows that were not read are not charged, except those that were already sent."""
        self._rows.close()

    def _pages(
        self, sender: Sender, endpoint: ListEndpoint[Body, Row], query: Query, caller: Caller
    ) -> Generator[Row, None, None]:
        while True:
            response = sender.get(endpoint, query, caller)
            self._add_page(response.metadata)
            yield from endpoint.results(response.body)
            page = endpoint.next_page(response.body)
            if page is None:
                return
            query = _next_query(query, page, response.metadata)

    def _export(
        self, sender: Sender, endpoint: ListEndpoint[Body, Row], query: Query, caller: Caller
    ) -> Generator[Row, None, None]:
        with sender.stream(endpoint.path, {**query, "format": "ndjson"}, caller) as (response, metadata):
            reader = ExportReader(endpoint, metadata, response.headers)
            self._add_export(reader)
            try:
                for chunk in response.iter_bytes():
                    yield from reader.feed(chunk)
            except TRANSPORT_ERRORS as error:
                raise reader.lost() from error
            reader.finish(response.extensions.get("trailers", {}))
            self._add_export(reader)
            sender.report(endpoint.path, reader.metadata, caller)


class AsyncRows(Reading, AsyncIterator[Row]):
    """The rows of all pages, or of a complete list. Close it, or use ``async with``, if you stop early."""

    def __init__(self, sender: AsyncSender, endpoint: ListEndpoint[Body, Row], query: Query, caller: Caller) -> None:
        super().__init__()
        read = self._export if query.get("limit") == "all" else self._pages
        self._rows = read(sender, endpoint, query, caller)

    async def __anext__(self) -> Row:
        return await anext(self._rows)

    async def __aenter__(self) -> "AsyncRows[Row]":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the response. Rows that were not read are not charged, except those that were already sent."""
        await self._rows.aclose()

    async def _pages(
        self, sender: AsyncSender, endpoint: ListEndpoint[Body, Row], query: Query, caller: Caller
    ) -> AsyncGenerator[Row, None]:
        while True:
            response = await sender.get(endpoint, query, caller)
            self._add_page(response.metadata)
            for row in endpoint.results(response.body):
                yield row
            page = endpoint.next_page(response.body)
            if page is None:
                return
            query = _next_query(query, page, response.metadata)

    async def _export(
        self, sender: AsyncSender, endpoint: ListEndpoint[Body, Row], query: Query, caller: Caller
    ) -> AsyncGenerator[Row, None]:
        async with sender.stream(endpoint.path, {**query, "format": "ndjson"}, caller) as (response, metadata):
            reader = ExportReader(endpoint, metadata, response.headers)
            self._add_export(reader)
            try:
                async for chunk in response.aiter_bytes():
                    for row in reader.feed(chunk):
                        yield row
            except TRANSPORT_ERRORS as error:
                raise reader.lost() from error
            reader.finish(response.extensions.get("trailers", {}))
            self._add_export(reader)
            sender.report(endpoint.path, reader.metadata, caller)


def _estimate_query(path: str, query: Query) -> Query:
    export = {"format": "ndjson"} if query.get("limit") == "all" else {}
    return {**query, **export, "endpoint": path}


def _rows_query(query: Query) -> Query:
    return query if query.get("limit") is not None else {**query, "limit": MAX_PAGE_ROWS}


def _needs_pages(query: Query, max_rows: int | None) -> bool:
    """Whether a data frame has only a part of the list. Such a part is not available as Parquet."""
    return max_rows is not None or query.get("page") is not None or query.get("limit") not in (None, "all")


def _frame_query(query: Query, max_rows: int | None) -> Query:
    """Returns the query for the pages of a data frame."""
    if query.get("limit") is not None:
        return query
    return {**query, "limit": MAX_PAGE_ROWS if max_rows is None else max(1, min(MAX_PAGE_ROWS, max_rows))}


def _read_frame(maker: FrameMaker, path: str, file: ExportFile) -> Any:
    frame = maker.from_file(file.path)
    if file.rows is not None and len(frame) != file.rows:
        raise IncompleteExport(
            f"{path} sent {len(frame)} of {file.rows} rows",
            reason="row_count",
            rows_received=len(frame),
            rows_expected=file.rows,
            request_id=file.metadata.request_id,
        )
    return frame


class Call(Generic[Body]):
    """A request to an endpoint. It can be sent several times."""

    def __init__(self, sender: Sender, endpoint: Endpoint[Body], query: Query) -> None:
        self._sender = sender
        self._endpoint = endpoint
        self._query = query
        self._caller = find_caller()

    def __repr__(self) -> str:
        return f"<request to {self._endpoint.path}, not sent; call get()>"

    def get(self) -> Body:
        """Sends the request and returns the body of the response."""
        return self.get_with_metadata().body

    def get_with_metadata(self) -> Response[Body]:
        """Sends the request. Also returns the metadata in the headers: cost, limits, dropped tickers, request id."""
        return self._sender.get(self._endpoint, self._query, self._caller)

    def estimate(self) -> types.Estimate:
        """Returns the price of the request, without sending or charging it."""
        query = _estimate_query(self._endpoint.path, self._query)
        return self._sender.get(_contract.ESTIMATE_ENDPOINT, query, self._caller).body["results"][0]


class ListCall(Call[Body], Generic[Body, Row]):
    """A request to an endpoint with paginated responses."""

    _endpoint: ListEndpoint[Body, Row]

    def __init__(self, sender: Sender, endpoint: ListEndpoint[Body, Row], query: Query) -> None:
        super().__init__(sender, endpoint, query)

    def __iter__(self) -> Rows[Row]:
        return self.rows()

    def pages(self) -> Iterator[Body]:
        """Iterates over all pages from ``page`` (default: 1) on. Requests each page when the loop reaches it."""
        query = self._query
        while True:
            response = self._sender.get(self._endpoint, query, self._caller)
            yield response.body
            page = self._endpoint.next_page(response.body)
            if page is None:
                return
            query = _next_query(query, page, response.metadata)

    def rows(self) -> Rows[Row]:
        """Iterates over the rows of all pages. ``limit`` is the number of rows per request, 100 by default.

        With ``limit="all"``, one response contains all rows. They are read one by one, and their number and digest are
        verified after the last row; ``IncompleteExport`` is raised if they are wrong.
        """
        return Rows(self._sender, self._endpoint, _rows_query(self._query), self._caller)

    def download(self, file: str | PathLike[str], *, file_format: FileFormat = "parquet") -> ExportFile:
        """Writes the complete list to a file, without decoding it.

        The digest is verified after the last byte; ``IncompleteExport`` is raised if it is wrong, or if the response
        was cut off. The file exists only if it is complete. If a proxy removed the digest, the number of rows and the
        end of the file are verified instead, as far as the format allows: see ``ExportFile.is_digest_verified``.

        Args:
            file: The path of the file, opened before the request is sent. An existing file is replaced.
            file_format: ``parquet``, ``csv`` or ``ndjson``.
        """
        query: Query = {**self._query, "limit": "all", "format": file_format}
        path = self._endpoint.path
        with (
            closing(OutputFile(Path(file), file_format)) as output,
            self._sender.stream(path, query, self._caller) as (response, metadata),
        ):
            writer = ExportWriter(path, metadata, response.headers, output)
            try:
                for chunk in response.iter_bytes():
                    writer.feed(chunk)
            except TRANSPORT_ERRORS as error:
                raise writer.lost() from error
            downloaded = writer.finish(response.extensions.get("trailers", {}))
        self._sender.report(path, downloaded.metadata, self._caller)
        return downloaded

    @overload
    def frame(
        self,
        backend: Literal["pandas"] = "pandas",
        *,
        decimals: Decimals = "float64",
        timezone: str = "America/New_York",
        max_rows: int | None = None,
    ) -> "pandas.DataFrame": ...

    @overload
    def frame(
        self,
        backend: Literal["polars"],
        *,
        decimals: Decimals = "float64",
        timezone: str = "America/New_York",
        max_rows: int | None = None,
    ) -> "polars.DataFrame": ...

    def frame(
        self,
        backend: Backend = "pandas",
        *,
        decimals: Decimals = "float64",
        timezone: str = "America/New_York",
        max_rows: int | None = None,
    ) -> "pandas.DataFrame | polars.DataFrame":
        """Downloads the complete list as Parquet, and returns it as a data frame.

        Args:
            backend: ``pandas`` or ``polars``.
            decimals: ``float64``: the nearest floats. ``decimal``: exact; objects in pandas, ``Decimal`` columns in
                polars. ``arrow``: exact; Arrow decimals in pandas too.
            timezone: The time zone of datetimes. It does not change the instants.
            max_rows: Reads only the first rows, as pages of JSON. If they are most of the list, the complete list
                costs less.
        """
        maker = FrameMaker(self._endpoint, self._query, backend, decimals, timezone)
        if _needs_pages(self._query, max_rows):
            with closing(Rows(self._sender, self._endpoint, _frame_query(self._query, max_rows), self._caller)) as rows:
                return maker.from_rows(list(islice(rows, max_rows)))
        with TemporaryDirectory(prefix="tickerline-") as folder:
            return _read_frame(maker, self._endpoint.path, self.download(Path(folder, "list.parquet")))


class AsyncCall(Generic[Body]):
    """A request to an endpoint. It can be sent several times."""

    def __init__(self, sender: AsyncSender, endpoint: Endpoint[Body], query: Query) -> None:
        self._sender = sender
        self._endpoint = endpoint
        self._query = query
        self._caller = find_caller()

    def __repr__(self) -> str:
        return f"<request to {self._endpoint.path}, not sent; await get()>"

    async def get(self) -> Body:
        """Sends the request and returns the body of the response."""
        return (await self.get_with_metadata()).body

    async def get_with_metadata(self) -> Response[Body]:
        """Sends the request. Also returns the metadata in the headers: cost, limits, dropped tickers, request id."""
        return await self._sender.get(self._endpoint, self._query, self._caller)

    async def estimate(self) -> types.Estimate:
        """Returns the price of the request, without sending or charging it."""
        query = _estimate_query(self._endpoint.path, self._query)
        return (await self._sender.get(_contract.ESTIMATE_ENDPOINT, query, self._caller)).body["results"][0]


class AsyncListCall(AsyncCall[Body], Generic[Body, Row]):
    """A request to an endpoint with paginated responses."""

    _endpoint: ListEndpoint[Body, Row]

    def __init__(self, sender: AsyncSender, endpoint: ListEndpoint[Body, Row], query: Query) -> None:
        super().__init__(sender, endpoint, query)

    def __aiter__(self) -> AsyncRows[Row]:
        return self.rows()

    async def pages(self) -> AsyncIterator[Body]:
        """Iterates over all pages from ``page`` (default: 1) on. Requests each page when the loop reaches it."""
        query = self._query
        while True:
            response = await self._sender.get(self._endpoint, query, self._caller)
            yield response.body
            page = self._endpoint.next_page(response.body)
            if page is None:
                return
            query = _next_query(query, page, response.metadata)

    def rows(self) -> AsyncRows[Row]:
        """Iterates over the rows of all pages. ``limit`` is the number of rows per request, 100 by default.

        With ``limit="all"``, one response contains all rows. They are read one by one, and their number and digest are
        verified after the last row; ``IncompleteExport`` is raised if they are wrong.
        """
        return AsyncRows(self._sender, self._endpoint, _rows_query(self._query), self._caller)

    async def download(self, file: str | PathLike[str], *, file_format: FileFormat = "parquet") -> ExportFile:
        """Writes the complete list to a file, like ``ListCall.download``."""
        query: Query = {**self._query, "limit": "all", "format": file_format}
        path = self._endpoint.path
        with closing(OutputFile(Path(file), file_format)) as output:
            async with self._sender.stream(path, query, self._caller) as (response, metadata):
                writer = ExportWriter(path, metadata, response.headers, output)
                try:
                    async for chunk in response.aiter_bytes():
                        writer.feed(chunk)
                except TRANSPORT_ERRORS as error:
                    raise writer.lost() from error
                downloaded = writer.finish(response.extensions.get("trailers", {}))
        self._sender.report(path, downloaded.metadata, self._caller)
        return downloaded

    @overload
    async def frame(
        self,
        backend: Literal["pandas"] = "pandas",
        *,
        decimals: Decimals = "float64",
        timezone: str = "America/New_York",
        max_rows: int | None = None,
    ) -> "pandas.DataFrame": ...

    @overload
    async def frame(
        self,
        backend: Literal["polars"],
        *,
        decimals: Decimals = "float64",
        timezone: str = "America/New_York",
        max_rows: int | None = None,
    ) -> "polars.DataFrame": ...

    async def frame(
        self,
        backend: Backend = "pandas",
        *,
        decimals: Decimals = "float64",
        timezone: str = "America/New_York",
        max_rows: int | None = None,
    ) -> "pandas.DataFrame | polars.DataFrame":
        """Returns all rows as a data frame, like ``ListCall.frame``."""
        maker = FrameMaker(self._endpoint, self._query, backend, decimals, timezone)
        if not _needs_pages(self._query, max_rows):
            with TemporaryDirectory(prefix="tickerline-") as folder:
                file = await self.download(Path(folder, "list.parquet"))
                return _read_frame(maker, self._endpoint.path, file)
        rows: list[Row] = []
        reading = AsyncRows(self._sender, self._endpoint, _frame_query(self._query, max_rows), self._caller)
        async with aclosing(reading):
            async for row in reading:
                rows.append(row)
                if len(rows) == max_rows:
                    break
        return maker.from_rows(rows)
