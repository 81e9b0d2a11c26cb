"""Sends requests with httpx, with retries. The two classes differ only in ``await``."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Generic

import httpx

from ._metadata import ResponseMetadata
from ._queries import Query
from ._requests import (
    TRANSPORT_ERRORS,
    Caller,
    Exchange,
    Settings,
    decode_error,
    decode_response,
    has_environment_proxy,
)
from ._structures import Body, Endpoint
from ._trailers import AsyncTrailerTransport, TrailerTransport


@dataclass(frozen=True)
class Response(Generic[Body]):
    """A decoded response."""

    body: Body
    metadata: ResponseMetadata


class Sender:
    def __init__(self, settings: Settings, http_client: httpx.Client | None) -> None:
        self.settings = settings
        self._owns_client = http_client is None
        self._http = http_client or httpx.Client(
            transport=None if has_environment_proxy() else TrailerTransport(settings.make_ssl_context())
        )

    def get(self, endpoint: Endpoint[Body], query: Query, caller: Caller) -> Response[Body]:
        return self.exchange(endpoint, Exchange(self.settings, endpoint.path, query), caller)

    def exchange(self, endpoint: Endpoint[Body], exchange: Exchange, caller: Caller) -> Response[Body]:
        response = self._send(exchange, is_stream=False)
        metadata = exchange.read_metadata(response)
        self.settings.report(endpoint.path, metadata, caller)
        return Response(decode_response(endpoint, metadata, response.text), metadata)

    def stream(
        self, path: str, query: Query, caller: Caller
    ) -> AbstractContextManager[tuple[httpx.Response, ResponseMetadata]]:
        """Opens a 200 response, whose body is not read yet. Raises the error of any other response."""
        return self.open(Exchange(self.settings, path, query), caller)

    @contextmanager
    def open(self, exchange: Exchange, caller: Caller) -> Iterator[tuple[httpx.Response, ResponseMetadata]]:
        response = self._send(exchange, is_stream=True)
        try:
            metadata = exchange.read_metadata(response)
            if metadata.status != 200:
                self.settings.report(exchange.path, metadata, caller)
                raise decode_error(exchange.path, metadata, response.text)
            yield response, metadata
        finally:
            response.close()

    def report(self, path: str, metadata: ResponseMetadata, caller: Caller) -> None:
        self.settings.report(path, metadata, caller)

    def close(self) -> None:
        if self._owns_client:
            self._http.close()

    def _send(self, exchange: Exchange, *, is_stream: bool) -> httpx.Response:
        while True:
            request = self._http.build_request(
                "GET", exchange.url, headers=exchange.start_attempt(), timeout=exchange.timeout
            )
            try:
                response = self._http.send(request, stream=True, follow_redirects=True)
                if not (is_stream and response.status_code == 200):
                    response.read()
            except TRANSPORT_ERRORS as error:
                delay: float | None = exchange.delay_after_failure(error)
            else:
                delay = exchange.delay_after_response(response)
                if delay is None:
                    return response
            self.settings.timing.sleep(delay or 0)


class AsyncSender:
    def __init__(self, settings: Settings, http_client: httpx.AsyncClient | None) -> None:
        self.settings = settings
        self._owns_client = http_client is None
        self._http = http_client or httpx.AsyncClient(
            transport=None if has_environment_proxy() else AsyncTrailerTransport(settings.make_ssl_context())
        )

    async def get(self, endpoint: Endpoint[Body], query: Query, caller: Caller) -> Response[Body]:
        return await self.exchange(endpoint, Exchange(self.settings, endpoint.path, query), caller)

    async def exchange(self, endpoint: Endpoint[Body], exchange: Exchange, caller: Caller) -> Response[Body]:
        response = await self._send(exchange, is_stream=False)
        metadata = exchange.read_metadata(response)
        self.settings.report(endpoint.path, metadata, caller)
        return Response(decode_response(endpoint, metadata, response.text), metadata)

    def stream(
        self, path: str, query: Query, caller: Caller
    ) -> AbstractAsyncContextManager[tuple[httpx.Response, ResponseMetadata]]:
        """Opens a 200 response, whose body is not read yet. Raises the error of any other response."""
        return self.open(Exchange(self.settings, path, query), caller)

    @asynccontextmanager
    async def open(self, exchange: Exchange, caller: Caller) -> AsyncIterator[tuple[httpx.Response, ResponseMetadata]]:
        response = await self._send(exchange, is_stream=True)
        try:
            metadata = exchange.read_metadata(response)
            if metadata.status != 200:
                self.settings.report(exchange.path, metadata, caller)
                raise decode_error(exchange.path, metadata, response.text)
            yield response, metadata
        finally:
            await response.aclose()

    def report(self, path: str, metadata: ResponseMetadata, caller: Caller) -> None:
        self.settings.report(path, metadata, caller)

    async def aclose(self) -> None:
        if self._owns_client:
            await self._http.aclose()

    async def _send(self, exchange: Exchange, *, is_stream: bool) -> httpx.Response:
        while True:
            request = self._http.build_request(
                "GET", exchange.url, headers=exchange.start_attempt(), timeout=exchange.timeout
            )
            try:
                response = await self._http.send(request, stream=True, follow_redirects=True)
                if not (is_stream and response.status_code == 200):
                    await response.aread()
            except TRANSPORT_ERRORS as error:
                delay: float | None = exchange.delay_after_failure(error)
            else:
                delay = exchange.delay_after_response(response)
                if delay is None:
                    return response
            await self.settings.timing.sleep_async(delay or 0)
