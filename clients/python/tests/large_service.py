"""Starts a service with a list that fills several row groups of a Parquet file.

`python -m tests.large_service COMMAND…` runs a command while the service is running.
"""

import contextlib
import csv
import datetime as dt
import json
import os
import sys
import tempfile
from collections.abc import Iterator

from .service import Service, new_service, run_command, run_with

INDEXES = 24_000
# Every seventh index has each combination of the remainders that `make_record` uses, because 7 divides none of them.
ROWS = range(0, INDEXES, 7)
# Row groups end by bytes, so few rows with long texts fill several.
LONG_TEXT = " long text" * 770
DAY = dt.timedelta(days=1)
TYPES = ["warrant", "prefunded_warrant", "convertible_note", "convertible_preferred"]
STARTS = ["", "A", "Z", "~", "é", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff", "\U0010ffff" * 5]


def make_record(index: int) -> dict[str, object]:
    """Makes a row. Dates and ids follow the order of the list, so that most row groups can be skipped."""
    warrant = {
        "warrants_amount": index * 1_000_003,
        "warrants_exercise_price": f"{1 + index % 1_000}.{index % 10_000:04}",
        "exercisable_date": dt.date(1970, 1, 1) + (index - INDEXES // 2) * DAY,
        "expiration_date": dt.date(2100, 1, 1) if index % 3 == 0 else None,
    }
    convertible = {
        "conversion_price": f"{index / 100:.4f}",
        "offering_amount": f"{index * 40_000_000_000_003}.{index % 100:02}",
        "maturity_date": dt.date(1900, 1, 1) + index * DAY,
    }
    return {
        "id": f"a prefix of seventeen bytes {index:06}",
        "ticker": f"PQ{index % 211}",
        "security_type": TYPES[index % 4],
        "details": f"{STARTS[index % 11]}{index * 7_919 % INDEXES:06} {LONG_TEXT}",
        "floor_price": None if index % 5 == 0 else f"{(index + 1) / 8:.3f}",
        "registered": ["true", "false", None][index % 3],
        "filed_at": dt.date(1960, 1, 1) + index // 2 * DAY,
        "last_updated": f"{dt.datetime(1960, 1, 1) + dt.timedelta(hours=index * 11, seconds=index)}.{index % 1_000:03}",
        "underlying_shares_remaining": (index * 2_654_435_761) % (2**53),
        "bank": f"Bank {index}" if index < INDEXES // 5 else None,
        "owners": json.dumps([f"Owner {index // 100}", f"{STARTS[index % 11]}!"][: index % 3], ensure_ascii=False),
        **(warrant if index % 4 < 2 else convertible),
    }


@contextlib.contextmanager
def running_large_service() -> Iterator[Service]:
    """Uses the service at TICKERLINE_LARGE_URL with TICKERLINE_LARGE_KEY; without these variables, starts a new one."""
    if "TICKERLINE_LARGE_URL" in os.environ:
        yield Service(os.environ["TICKERLINE_LARGE_URL"], os.environ["TICKERLINE_LARGE_KEY"])
        return
    with new_service() as (service, home):
        records = [make_record(index) for index in ROWS]
        with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list({name: None for record in records for name in record}))
            writer.writeheader()
            writer.writerows(records)
            file.flush()
            run_command(home, "load", "dilution-data", file.name, "--append")
        # The demo key works only beside the sample data alone.
        key = run_command(home, "keys", "create", "--account", "groups", "--tier", "ultimate").strip()
        yield Service(service.url, key)


if __name__ == "__main__":
    with running_large_service() as running:
        code = run_with(running, "TICKERLINE_LARGE", sys.argv[1:])
    sys.exit(code)
