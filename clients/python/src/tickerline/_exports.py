"""Decodes and verifies the NDJSON of a ``limit=all`` response, chunk by chunk."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Generic, Literal

from ._errors import IncompleteExport
from ._metadata import ResponseMetadata, parse_integer
from ._requests import mismatched, not_json
from ._structures import Body, ListEndpoint, Mismatch, Row, parse_json


class ExportReader(Generic[Body, Row]):
    """Reads one response. Keeps only its last, incomplete line."""

    def __init__(
        self, endpoint: ListEndpoint[Body, Row], metadata: ResponseMetadata, headers: Mapping[str, str]
    ) -> None:
        self.metadata = metadata
        self.rows_expected = parse_integer(headers.get("x-row-count"))
        self.rows_received = 0
        self.is_digest_verified = False
        self._endpoint = endpoint
        self._hash = hashlib.sha256()
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
        if self.rows_expected is not None and self.rows_received != self.rows_expected:
            message = f"{self._endpoint.path} sent {self.rows_received} of {self.rows_expected} rows"
            raise self.incomplete("row_count", message)
        digest = re.search(r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/=]+):", trailers.get("unencoded-digest", ""))
        if digest is not None:
            if digest[1] != base64.b64encode(self._hash.digest()).decode("ascii"):
                raise self.incomplete("digest", f"The rows of {self._endpoint.path} do not match their digest")
            self.is_digest_verified = True
        cost = parse_integer(trailers.get("x-cost-microdollars"))
        if cost is not None:
            self.metadata = replace(self.metadata, cost_microdollars=cost)

    def lost(self) -> IncompleteExport:
        """The error after a lost connection."""
        expected = "" if self.rows_expected is None else f" of {self.rows_expected}"
        return self.incomplete(
            "connection", f"The response of {self._endpoint.path} ended after {self.rows_received}{expected} rows"
        )

    def incomplete(self, reason: Literal["connection", "row_count", "digest"], message: str) -> IncompleteExport:
        return IncompleteExport(
            message,
            reason=reason,
            rows_received=self.rows_received,
            rows_expected=self.rows_expected,
            request_id=self.metadata.request_id,
        )

    def _decode(self, line: bytes) -> Row:
        text = line.decode("utf-8", "replace")
        try:
            return self._endpoint.decode_row(parse_json(text))
        except Mismatch as mismatch:
            raise mismatched(self._endpoint.path, self.metadata, text, mismatch) from None
        except ValueError:
            raise not_json(self._endpoint.path, self.metadata, text) from None
