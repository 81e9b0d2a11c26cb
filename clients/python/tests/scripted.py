"""A server that sends scripted responses over real sockets."""

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

EVENT: dict[str, object] = {
    "at": "2026-01-02",
    "ticker": "A",
    "type": "gap",
    "title": "A gap",
    "endpoint": "/v1/gap-stats",
    "key": "ticker=A",
    "tier": "basic",
}
"""A row of `/v1/timeline`."""


# Without this header, the client might send its next request while the server closes the connection.
CLOSE = "Connection: close\r\n"


@dataclass
class ScriptedServer:
    url: str
    requests: list[str] = field(default_factory=list)
    """The request line and headers of each request."""


def response(status: int, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{head}{CLOSE}Content-Length: {len(body)}\r\n\r\n".encode() + body


def json_response(status: int, value: object, headers: Mapping[str, str] | None = None) -> bytes:
    return response(status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(value).encode())


def error_response(status: int, code: str, details: object = None, headers: Mapping[str, str] | None = None) -> bytes:
    error = {"code": code, "message": "Scripted.", **({} if details is None else {"details": details})}
    return json_response(status, {"error": error, "request_id": "scripted"}, headers)


def digest_of(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def chunked_response(
    chunks: Iterable[bytes], headers: Mapping[str, str], trailers: Mapping[str, str]
) -> Iterator[bytes]:
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    yield f"HTTP/1.1 200 OK\r\n{head}{CLOSE}Transfer-Encoding: chunked\r\n\r\n".encode()
    for chunk in chunks:
        yield f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n"
    yield b"0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in trailers.items()).encode() + b"\r\n"


@contextmanager
def scripted_server(*responses: bytes | Iterable[bytes]) -> Iterator[ScriptedServer]:
    """Starts a server. Each connection gets the next response, and is then closed; an empty response is a lost one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ScriptedServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=_serve, args=(listener, server, responses))
        thread.start()
        try:
            yield server
        finally:
            # Ends connections that the test did not use.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, server: ScriptedServer, responses: Iterable[bytes | Iterable[bytes]]) -> None:
    for scripted in responses:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            server.requests.append(head.decode())
            try:
                for part in [scripted] if isinstance(scripted, bytes) else scripted:
                    connection.sendall(part)
            except OSError:
                continue
