"""Verifies ``limit=all`` responses, chunk by chunk: decodes NDJSON, or writes a file."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, Protocol

from ._errors import IncompleteExport
from ._metadata import ResponseMetadata, parse_integer
from ._requests import mismatched, not_json
from ._structures import Body, ListEndpoint, Mismatch, Row, parse_json

FileFormat = Literal["parquet", "csv", "ndjson"]


@dataclass(frozen=True)
class ExportFile:
    """A file with a complete list."""

    path: Path
    rows: int | None
    """The number of rows in the header ``X-Row-Count``."""
    size: int
    """Size of the file in bytes, which determines the cost."""
    is_digest_verified: bool
    """Whether a digest followed the last byte and matched. A proxy may remove the digest.

    Without a digest, the client knows that CSV and NDJSON have the announced number of rows and end with a line, and
    that Parquet begins and ends as such a file does. It does not know whether bytes in between were changed, or, in
    Parquet, lost.
    """
    metadata: ResponseMetadata


class ExportVerifier:
    """Verifies one response."""

    def __init__(self, path: str, metadata: ResponseMetadata, headers: Mapping[str, str]) -> None:
        self.metadata = metadata
        self.rows_expected = parse_integer(headers.get("x-row-count"))
        self.rows_received = 0
        self.is_digest_verified = False
        self._path = path
        self._hash = hashlib.sha256()

    def verify(self, trailers: Mapping[str, str]) -> None:
        """Reads the cost in the trailers, and verifies the digest. Raises ``IncompleteExport`` if it is wrong."""
        digest = re.search(r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/=]+):", trailers.get("unencoded-digest", ""))
        if digest is not None:
            if digest[1] != base64.b64encode(self._hash.digest()).decode("ascii"):
                raise self.incomplete("digest", f"The rows of {self._path} do not match their digest")
            self.is_digest_verified = True
        cost = parse_integer(trailers.get("x-cost-microdollars"))
        if cost is not None:
            self.metadata = replace(self.metadata, cost_microdollars=cost)

    def verify_rows(self, rows: int) -> None:
        """Raises ``IncompleteExport`` if the service announced another number of rows."""
        self.rows_received = rows
        if self.rows_expected is not None and rows != self.rows_expected:
            raise self.incomplete("row_count", f"{self._path} sent {rows} of {self.rows_expected} rows")

    def incomplete(self, reason: Literal["connection", "row_count", "digest"], message: str) -> IncompleteExport:
        return IncompleteExport(
            message,
            reason=reason,
            rows_received=self.rows_received,
            rows_expected=self.rows_expected,
            request_id=self.metadata.request_id,
        )


class EndChecker(Protocol):
    """Finds out whether a file has an end."""

    rows: int | None
    """The number of rows so far; None if it is unknown."""

    def feed(self, chunk: bytes) -> None: ...

    def has_end(self) -> bool: ...


class NdjsonChecker:
    """Counts lines."""

    def __init__(self) -> None:
        self.rows: int | None = 0
        self._lines = 0
        self._is_line_open = False

    def feed(self, chunk: bytes) -> None:
        self._lines += chunk.count(b"\n")
        self.rows = self._lines
        if chunk:
            self._is_line_open = not chunk.endswith(b"\n")

    def has_end(self) -> bool:
        return not self._is_line_open


class CsvChecker:
    """Counts the records after the header. A line break in quotes is part of a cell."""

    def __init__(self) -> None:
        self.rows: int | None = 0
        self._lines = 0
        self._is_quoted = False
        self._is_line_open = True

    def feed(self, chunk: bytes) -> None:
        for index, part in enumerate(chunk.split(b'"')):
            if index > 0:
                self._is_quoted = not self._is_quoted
            if not self._is_quoted:
                self._lines += part.count(b"\n")
        self.rows = max(0, self._lines - 1)
        if chunk:
            self._is_line_open = self._is_quoted or not chunk.endswith(b"\n")

    def has_end(self) -> bool:
        return not self._is_line_open


class ParquetChecker:
    """Checks the first bytes of a Parquet file and its end: the footer, the footer's length, and ``PAR1``."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self._size = 0
        self._start = b""
        self._end = b""

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._start = (self._start + chunk[:4])[:4]
        self._end = (self._end + chunk)[-8:]

    def has_end(self) -> bool:
        footer_size = int.from_bytes(self._end[:4], "little")
        return self._start == self._end[4:] == b"PAR1" and self._size >= 12 + footer_size


CHECKERS: dict[FileFormat, Callable[[], EndChecker]] = {
    "parquet": ParquetChecker,
    "csv": CsvChecker,
    "ndjson": NdjsonChecker,
}


class OutputFile:
    """Writes to ``<file>.part``, which ``commit`` renames. Open it before the request, so that nobody pays in vain.

    A pipe or device is written directly, because renaming would replace it.
    """

    def __init__(self, file: Path, file_format: FileFormat) -> None:
        if file_format not in CHECKERS:
            raise ValueError(f"file_format must be 'parquet', 'csv' or 'ndjson', not {file_format!r}")
        if file.is_dir():
            raise IsADirectoryError(f"{file} is a folder; add the name of a file")
        self.file = file
        self.checker = CHECKERS[file_format]()
        self._part = file if file.exists() and not file.is_file() else file.with_name(f"{file.name}.part")
        self._output = self._part.open("wb")

    def write(self, chunk: bytes) -> None:
        self.checker.feed(chunk)
        self._output.write(chunk)

    def commit(self) -> None:
        self._output.close()
        if self._part != self.file:
            self._part.replace(self.file)

    def close(self) -> None:
        """Removes an incomplete file."""
        self._output.close()
        if self._part != self.file:
            self._part.unlink(missing_ok=True)


class ExportWriter(ExportVerifier):
    """Writes one response to a file."""

    def __init__(self, path: str, metadata: ResponseMetadata, headers: Mapping[str, str], output: OutputFile) -> None:
        super().__init__(path, metadata, headers)
        self._output = output
        self._checker = output.checker
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._size += len(chunk)
        self._output.write(chunk)
        self.rows_received = self._checker.rows or 0

    def finish(self, trailers: Mapping[str, str]) -> ExportFile:
        """Verifies the file. Raises ``IncompleteExport`` if it is wrong or incomplete."""
        self.verify(trailers)
        if not self._checker.has_end():
            raise self.incomplete("connection", f"The file of {self._path} has no end")
        if self._checker.rows is not None:
            self.verify_rows(self._checker.rows)
        self._output.commit()
        return ExportFile(self._output.file, self.rows_expected, self._size, self.is_digest_verified, self.metadata)

    def lost(self) -> IncompleteExport:
        """Makes the error for a lost connection."""
        return self.incomplete("connection", f"The response of {self._path} ended after {self._size} bytes")


class ExportReader(ExportVerifier, Generic[Body, Row]):
    """Reads the rows of one response. Keeps only its last, incomplete line."""

    def __init__(
        self, endpoint: ListEndpoint[Body, Row], metadata: ResponseMetadata, headers: Mapping[str, str]
    ) -> None:
        super().__init__(endpoint.path, metadata, headers)
        self._endpoint = endpoint
        self._rest = b""

    def feed(self, chunk: bytes) -> list[Row]:
        """Returns the rows that end in the chunk."""
        self._hash.update(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        rows = [self._decode(line) for line in lines]
        self.rows_received += len(rows)
        return rows

    def finish(self, trailers: Mapping[str, str]) -> None:
        """Verifies the response, and reads its cost from the trailers. Raises ``IncompleteExport``."""
        if self._rest:
            self._decode(self._rest)
            raise self.incomplete("connection", "The last row is incomplete")
        self.verify_rows(self.rows_received)
        self.verify(trailers)

    def lost(self) -> IncompleteExport:
        """Makes the error for a lost connection."""
        expected = "" if self.rows_expected is None else f" of {self.rows_expected}"
        return self.incomplete(
            "connection", f"The response of {self._endpoint.path} ended after {self.rows_received}{expected} rows"
        )

    def _decode(self, line: bytes) -> Row:
        text = line.decode("utf-8", "replace")
        try:
            return self._endpoint.decode_row(parse_json(text))
        except Mismatch as mismatch:
            raise mismatched(self._endpoint.path, self.metadata, text, mismatch) from None
        except ValueError:
            raise not_json(self._endpoint.path, self.metadata, text) from None
