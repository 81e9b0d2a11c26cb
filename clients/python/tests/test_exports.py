"""Complete lists whose responses are cut off or wrong."""

import gzip
import json
import os
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tickerline
from tickerline import Tickerline
from tickerline._exports import FileFormat
from tickerline._trailers import parse_trailers

from .drivers import Driver
from .scripted import EVENT, chunked_response, digest_of, response, scripted_server

LINE = json.dumps(EVENT).encode() + b"\n"
BODY = LINE * 3
TYPE = {"Content-Type": "application/x-ndjson"}


def export(
    chunks: list[bytes], *, rows: int = 3, headers: Mapping[str, str] = TYPE, trailers: Mapping[str, str] | None = None
) -> list[bytes]:
    trailers = {"Unencoded-Digest": digest_of(BODY), "X-Cost-Microdollars": "12"} if trailers is None else trailers
    return list(chunked_response(chunks, {**headers, "X-Row-Count": str(rows)}, trailers))


@pytest.mark.parametrize(
    "chunks", [[BODY], [LINE, LINE, LINE], [BODY[:7], BODY[7:100], BODY[100:]], [bytes([byte]) for byte in BODY]]
)
def test_verifies_the_digest_and_reads_the_cost_from_the_trailers(
    chunks: list[bytes], driver_class: type[Driver]
) -> None:
    with scripted_server(export(chunks)) as server, driver_class(server.url) as driver:
        assert driver.rows("timeline", ticker="A", limit="all") == [EVENT] * 3
        assert driver.reading is not None
        assert driver.reading.is_digest_verified
        assert driver.reading.cost_microdollars == 12
        assert driver.responses[-1][1].cost_microdollars == 12
        assert "limit=all&format=ndjson" in server.requests[0].splitlines()[0]


def test_verifies_the_digest_of_a_compressed_response(driver_class: type[Driver]) -> None:
    parts = export([gzip.compress(BODY)], headers={**TYPE, "Content-Encoding": "gzip"})
    with scripted_server(parts) as server, driver_class(server.url) as driver:
        assert len(driver.rows("timeline", ticker="A", limit="all")) == 3
        assert driver.reading is not None
        assert driver.reading.is_digest_verified


def test_verifies_only_the_number_of_rows_if_a_proxy_removed_the_trailers(driver_class: type[Driver]) -> None:
    with scripted_server(export([BODY], trailers={})) as server, driver_class(server.url) as driver:
        assert len(driver.rows("timeline", ticker="A", limit="all")) == 3
        assert driver.reading is not None
        assert not driver.reading.is_digest_verified


def test_refuses_rows_with_a_wrong_digest(driver_class: type[Driver]) -> None:
    changed = BODY.replace(b"A gap", b"A gaq", 1)
    with scripted_server(export([changed])) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.IncompleteExport, match="do not match their digest") as caught:
            driver.rows("timeline", ticker="A", limit="all")
        assert caught.value.reason == "digest"


def test_refuses_a_wrong_number_of_rows(driver_class: type[Driver]) -> None:
    with scripted_server(export([BODY], rows=4)) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.IncompleteExport, match="sent 3 of 4 rows") as caught:
            driver.rows("timeline", ticker="A", limit="all")
        assert (caught.value.reason, caught.value.rows_received, caught.value.rows_expected) == ("row_count", 3, 4)


@pytest.mark.parametrize("end", [LINE * 2, LINE * 2 + LINE[:20]])
def test_notices_a_response_that_was_cut_off(end: bytes, driver_class: type[Driver]) -> None:
    head, chunk, _ = export([end])
    with scripted_server([head, chunk]) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.IncompleteExport, match="ended after 2 of 3 rows") as caught:
            driver.rows("timeline", ticker="A", limit="all")
        assert caught.value.reason == "connection"
        with pytest.raises(tickerline.IncompleteExport):
            scripted_frame(driver_class, [head, chunk])


def scripted_frame(driver_class: type[Driver], parts: list[bytes]) -> None:
    with scripted_server(parts) as server, driver_class(server.url) as driver:
        driver.frame("timeline", {"ticker": "A"})


def test_reads_a_long_list_with_little_memory() -> None:
    rows = 20_000

    def chunks() -> Iterator[bytes]:
        for _ in range(rows // 100):
            yield LINE * 100

    parts = chunked_response(chunks(), {**TYPE, "X-Row-Count": str(rows)}, {"Unencoded-Digest": digest_of(LINE * rows)})
    with scripted_server(parts) as server, Tickerline(server.url) as client:
        reading = client.timeline("A", limit="all").rows()
        next(reading)
        tracemalloc.start()
        count = 1 + sum(1 for _ in reading)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert count == rows
    assert reading.is_digest_verified
    assert peak < 1_000_000 < len(LINE) * rows


FILE = b"PAR1 rows" + b"a footer" + (8).to_bytes(4, "little") + b"PAR1"


def file_export(chunks: list[bytes], trailers: Mapping[str, str] | None = None) -> list[bytes]:
    trailers = {"Unencoded-Digest": digest_of(FILE), "X-Cost-Microdollars": "7"} if trailers is None else trailers
    headers = {"Content-Type": "application/vnd.apache.parquet", "X-Row-Count": "3"}
    return list(chunked_response(chunks, headers, trailers))


def test_writes_a_file_and_verifies_its_digest(driver_class: type[Driver], tmp_path: Path) -> None:
    target = tmp_path / "events.parquet"
    target.write_bytes(b"an older file")
    with scripted_server(file_export([FILE[:3], FILE[3:]])) as server, driver_class(server.url) as driver:
        file = driver.download("timeline", target, {"ticker": "A"})
        assert (file.path, file.rows, file.size, file.is_digest_verified) == (target, 3, len(FILE), True)
        assert file.metadata.cost_microdollars == driver.responses[-1][1].cost_microdollars == 7
        assert "limit=all&format=parquet" in server.requests[0].splitlines()[0]
    assert target.read_bytes() == FILE
    assert [path.name for path in tmp_path.iterdir()] == ["events.parquet"]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (file_export([FILE.replace(b"rows", b"rowz")]), "digest"),
        (file_export([FILE])[:2], "connection"),
        (file_export([FILE[:-4]], {}), "connection"),
    ],
)
def test_leaves_no_file_if_the_response_is_wrong(
    parts: list[bytes], reason: str, driver_class: type[Driver], tmp_path: Path
) -> None:
    with scripted_server(parts) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.IncompleteExport) as caught:
            driver.download("timeline", tmp_path / "events.parquet", {"ticker": "A"})
        assert (caught.value.reason, caught.value.rows_expected) == (reason, 3)
    assert list(tmp_path.iterdir()) == []


def test_accepts_a_file_whose_trailers_a_proxy_removed(driver_class: type[Driver], tmp_path: Path) -> None:
    with scripted_server(file_export([FILE], {})) as server, driver_class(server.url) as driver:
        assert not driver.download("timeline", tmp_path / "events.parquet", {"ticker": "A"}).is_digest_verified


CSV = '\ufeffat,title\r\n2026-01-02,"A ""gap"",\nand\r\nmore"\r\n2026-01-03,é\r\n2026-01-04,\r\n'.encode()
"""Three records after the header."""

FILES: dict[FileFormat, tuple[bytes, str]] = {
    "parquet": (FILE, "application/vnd.apache.parquet"),
    "ndjson": (BODY, "application/x-ndjson"),
    "csv": (CSV, "text/csv"),
}


def until_closed(body: bytes, headers: Mapping[str, str]) -> list[bytes]:
    """A response without a length or chunks, as an old proxy sends it. It looks complete wherever it ends."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return [f"HTTP/1.1 200 OK\r\n{head}Connection: close\r\n\r\n".encode() + body]


@pytest.mark.parametrize("file_format", FILES)
def test_finds_each_end_that_no_trailer_announces(file_format: FileFormat, tmp_path: Path) -> None:
    body, content_type = FILES[file_format]
    headers = {"Content-Type": content_type, "X-Row-Count": "3"}
    target = tmp_path / "events"
    ends = range(len(body) + 1)
    responses = [until_closed(body[:end], headers) for end in ends]
    with scripted_server(*responses) as server, Tickerline(server.url) as client:
        for end in ends[:-1]:
            with pytest.raises(tickerline.IncompleteExport) as caught:
                client.timeline("A").download(target, file_format=file_format)
            assert caught.value.rows_expected == 3
            assert list(tmp_path.iterdir()) == [], end
        file = client.timeline("A").download(target, file_format=file_format)
    assert (file.rows, file.size, file.is_digest_verified) == (3, len(body), False)
    assert target.read_bytes() == body


@pytest.mark.parametrize("file_format", FILES)
def test_counts_the_rows_of_a_file_in_any_chunks(
    file_format: FileFormat, driver_class: type[Driver], tmp_path: Path
) -> None:
    body, content_type = FILES[file_format]
    headers = {"Content-Type": content_type, "X-Row-Count": "3"}
    for size in (1, 2, 7, len(body)):
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        parts = list(chunked_response(chunks, headers, {}))
        with scripted_server(parts) as server, driver_class(server.url) as driver:
            assert driver.download("timeline", tmp_path / "events", {"ticker": "A"}, file_format=file_format).rows == 3
    for sent, expected in (("2", "3 of 2"), ("4", "3 of 4")):
        if file_format != "parquet":
            parts = list(chunked_response([body], {**headers, "X-Row-Count": sent}, {}))
            with scripted_server(parts) as server, driver_class(server.url) as driver:
                with pytest.raises(tickerline.IncompleteExport, match=expected) as caught:
                    driver.download("timeline", tmp_path / "other", {"ticker": "A"}, file_format=file_format)
                assert (caught.value.reason, caught.value.rows_received) == ("row_count", 3)


def test_sends_no_request_if_it_cannot_write_the_file(driver_class: type[Driver], tmp_path: Path) -> None:
    with scripted_server(file_export([FILE])) as server, driver_class(server.url) as driver:
        with pytest.raises(FileNotFoundError):
            driver.download("timeline", tmp_path / "missing" / "events.parquet", {"ticker": "A"})
        with pytest.raises(IsADirectoryError):
            driver.download("timeline", tmp_path, {"ticker": "A"})
        with pytest.raises(ValueError, match="file_format must be"):
            driver.download("timeline", tmp_path / "events", {"ticker": "A"}, file_format="xlsx")
        assert server.requests == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_writes_to_a_pipe_without_replacing_it(driver_class: type[Driver], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    with scripted_server(file_export([FILE])) as server, driver_class(server.url) as driver:
        driver.download("timeline", pipe, {"ticker": "A"})
    reader.join()
    assert received == [FILE]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_refuses_a_body_that_is_shorter_than_its_length(driver_class: type[Driver], tmp_path: Path) -> None:
    head, _, body = response(200, {"Content-Type": "text/csv", "X-Row-Count": "3"}, CSV).partition(b"\r\n\r\n")
    with scripted_server(head + b"\r\n\r\n" + body[:-20]) as server, driver_class(server.url) as driver:
        with pytest.raises(tickerline.IncompleteExport) as caught:
            driver.download("timeline", tmp_path / "events", {"ticker": "A"}, file_format="csv")
        assert caught.value.reason == "connection"
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_frame_with_another_number_of_rows_than_announced(driver_class: type[Driver], tmp_path: Path) -> None:
    source = tmp_path / "list.parquet"
    pq.write_table(pa.table({"ticker": ["A", "B"]}), source)
    headers = {"Content-Type": "application/vnd.apache.parquet", "X-Row-Count": "3"}
    parts = list(chunked_response([source.read_bytes()], headers, {}))
    for backend in ("pandas", "polars"):
        with (
            scripted_server(parts) as server,
            driver_class(server.url) as driver,
            pytest.raises(tickerline.IncompleteExport, match="2 of 3 rows"),
        ):
            driver.frame("timeline", {"ticker": "A"}, backend=backend)


@pytest.mark.parametrize(
    ("tail", "trailers"),
    [
        (b"data\r\n0\r\nA: 1\r\nB-c:2\r\n\r\n", {"a": "1", "b-c": "2"}),
        (b"data\r\n000;name=value\r\nA: 1\r\n\r\n", {"a": "1"}),
        (b"data\r\n0\r\n\r\n", {}),
        (b"data\r\n0\r\nA: 1\r\n", {}),
        (b"\r\n0\r\nA: 1\r\n\r\n\r\n0\r\nB: 2\r\n\r\n", {"b": "2"}),
        (b"", {}),
    ],
)
def test_finds_trailers_at_the_end_of_a_body(tail: bytes, trailers: dict[str, str]) -> None:
    assert parse_trailers(tail) == trailers
