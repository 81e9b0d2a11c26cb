"""Exceptions from Schemathesis's checks, and the sample of requests that is sent without ``--full``."""

import os
import re
from itertools import count

import schemathesis
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.openapi.checks import RejectedPositiveData

# Why a request may be refused although the OpenAPI document, which describes each parameter alone, allows it.
RULES_OUTSIDE_OF_OPENAPI = {
    "parameters that need or exclude each other": [
        r"needs \w+(=\w+)?",
        r"cannot be combined with .*",
        r"can be all only with format=.*",
        r"can be parquet only with limit=all\. .*",
        r"must not be greater than \w+",
        r"must name its symbol, like .*, unless ticker is one symbol",
    ],
    "today's date": [r"must be in the past: .*", r"is in the future\. .*", r"must not be in the future"],
    "moments and cursors, whose form no format or pattern describes": [
        r"must be now, a date, or a timestamp with an offset .*",
        r"must be a cursor from a response, a time with its zone .*",
        r"must be that of the link to a next page, unchanged",
    ],
    "numbers that are greater than a double": [r"must be a finite number without separators, such as 1234\.5"],
    "the recorded symbol changes": [r"cannot be \d{10}: .*", r"must be a CIK in the history of .*"],
    "elements of comma-separated texts": [
        r"Invalid ticker\(s\): .*",
        r"must be a CIK of one to ten digits, or SYMBOL:CIK for a symbol of a list",
        r"must be an HTTP status code, such as 200",
        r"must be a month, such as 2026-11",
        r"must be at most \d+ characters long per value",
        r"must not have brackets around its values",
        r"must not be (null|NULL|undefined|None|nil|<nil>|NaN); if you mean this text, write .*",
    ],
}
# Advice about forms in which libraries send lists and missing values, which may follow any reason.
ADVICE = re.compile(r"; (leave \w+ out to send no value|separate several values by commas: .*)$")
# Codes of refusals that depend on how far the history of the service reaches back.
HISTORY_CODES = {"as_of_too_early", "cursor_expired"}
REASONS = [re.compile(rule) for rules in RULES_OUTSIDE_OF_OPENAPI.values() for rule in rules]

# The coverage phase makes thousands of requests, most of them for parameters that many endpoints share.
COVERAGE_SAMPLE = 1 if os.environ.get("JUDGES_FULL") == "1" else 10
coverage_cases = count()


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Discards expected failures: requests refused by the rules above, and what no schema can describe."""
    if failure.title == "SSE event violates schema":  # The schema is that of the text of the whole stream.
        return False
    if not isinstance(failure, RejectedPositiveData) or response.status_code not in (410, 422):
        return True
    error = response.json()["error"]
    if error["code"] in HISTORY_CODES:
        return False
    if case.operation.path == "/estimate":  # It validates the parameters of any endpoint.
        return False
    reasons = [ADVICE.sub("", field["reason"]) for field in error["details"]["fields"]]
    return not any(rule.fullmatch(reason) for rule in REASONS for reason in reasons)


@schemathesis.hook
def filter_case(context, case):
    is_coverage = case.meta is not None and isinstance(case.meta.phase.data, CoveragePhaseData)
    return not is_coverage or next(coverage_cases) % COVERAGE_SAMPLE == 0
