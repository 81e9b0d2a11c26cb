"""HTTP transports that keep the trailers of a response, which httpx and httpcore discard.

After the body, ``response.extensions["trailers"]`` contains the trailers. They are read from the last bytes that
the connection received, because HTTP/1.1 sends nothing after the trailers before the next request.
"""

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import httpcore
import httpx

TAIL_BYTES = 8192
"""Number of received bytes to keep. Longer trailers are not found."""

_last_chunk = re.compile(rb"\r\n0+(?:;[^\r\n]*)?\r\n((?:[!-9;-~]+:[^\r\n]*\r\n)+)\r\n\Z")


def parse_trailers(tail: bytes) -> dict[str, str]:
    """Returns the trailers at the end of a chunked body, with names in lower case."""
    match = _last_chunk.search(tail)
    if match is None:
        return {}
    fields = (line.partition(b":") for line in match[1].split(b"\r\n") if line)
    return {name.decode("ascii").lower(): value.strip().decode("latin-1") for name, _, value in fields}


class Tail:
    """The last bytes that a connection received since its last request."""

    def __init__(self) -> None:
        self.bytes = b""

    def add(self, data: bytes) -> None:
        self.bytes = data[-TAIL_BYTES:] if len(data) >= TAIL_BYTES else (self.bytes + data)[-TAIL_BYTES:]


class RecordingStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self.tail = Tail()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._stream.read(max_bytes, timeout)
        self.tail.add(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.tail.bytes = b""
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return RecordingStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class AsyncRecordingStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self.tail = Tail()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        self.tail.add(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.tail.bytes = b""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return AsyncRecordingStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class RecordingBackend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        return RecordingStream(self._backend.connect_tcp(host, port, timeout, local_address, socket_options))


class AsyncRecordingBackend(httpcore.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return AsyncRecordingStream(stream)


def _network_tail(extensions: Mapping[str, Any]) -> Tail | None:
    stream = extensions.get("network_stream")
    return stream.tail if isinstance(stream, (RecordingStream, AsyncRecordingStream)) else None


class TrailerStream(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response, trailers: dict[str, str]) -> None:
        self._response = response
        self._trailers = trailers

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()
        # Read before `close`: after it, another thread may send the next request on this connection.
        tail = _network_tail(self._response.extensions)
        if tail is not None:
            self._trailers.update(parse_trailers(tail.bytes))

    def close(self) -> None:
        self._response.close()


class AsyncTrailerStream(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response, trailers: dict[str, str]) -> None:
        self._response = response
        self._trailers = trailers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_stream():
            yield chunk
        tail = _network_tail(self._response.extensions)
        if tail is not None:
            self._trailers.update(parse_trailers(tail.bytes))

    async def aclose(self) -> None:
        await self._response.aclose()


def _core_request(request: httpx.Request) -> httpcore.Request:
    url = httpcore.URL(
        scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
    )
    return httpcore.Request(
        request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
    )


def _httpx_response(
    response: httpcore.Response, stream: TrailerStream | AsyncTrailerStream, trailers: dict[str, str]
) -> httpx.Response:
    extensions = {**response.extensions, "trailers": trailers}
    return httpx.Response(response.status, headers=response.headers, stream=stream, extensions=extensions)


_MAX_CONNECTIONS, _MAX_IDLE_CONNECTIONS, _IDLE_SECONDS = 100, 20, 5.0


class TrailerTransport(httpx.BaseTransport):
    """Like ``httpx.HTTPTransport``, but keeps trailers. Raises the exceptions of ``httpcore``."""

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=RecordingBackend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._pool.handle_request(_core_request(request))
        trailers: dict[str, str] = {}
        return _httpx_response(response, TrailerStream(response, trailers), trailers)

    def close(self) -> None:
        self._pool.close()


class AsyncTrailerTransport(httpx.AsyncBaseTransport):
    """Like ``httpx.AsyncHTTPTransport``, but keeps trailers. Raises the exceptions of ``httpcore``."""

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=AsyncRecordingBackend(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._pool.handle_async_request(_core_request(request))
        trailers: dict[str, str] = {}
        return _httpx_response(response, AsyncTrailerStream(response, trailers), trailers)

    async def aclose(self) -> None:
        await self._pool.aclose()
