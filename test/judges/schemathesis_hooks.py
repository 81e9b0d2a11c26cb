"""Exceptions from Schemathesis's checks, and the sample of requests that is sent without ``--full``."""

import os
import re
from itertools import count

import schemathesis
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.openapi.checks import RejectedPositiveData

# Rules about several parameters, or about today's date: OpenAPI describes each parameter alone.
RULES_OUTSIDE_OF_OPENAPI = [
    r"needs \w+(=\w+)?",
    r"can be all only with format=.*",
    r"must not be greater than \w+",
    r"cannot be combined with .*",
    r"must be in the past: .*",
]

# The coverage phase makes thousands of requests, most of them for parameters that many endpoints share.
COVERAGE_SAMPLE = 1 if os.environ.get("JUDGES_FULL") == "1" else 5
coverage_cases = count()


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Discards the refusal of a request that only such a rule forbids."""
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 422:
        return True
    reasons = [field["reason"] for field in response.json()["error"]["details"]["fields"]]
    return not any(re.fullmatch(rule, reason) for rule in RULES_OUTSIDE_OF_OPENAPI for reason in reasons)


@schemathesis.hook
def filter_case(context, case):
    is_coverage = case.meta is not None and isinstance(case.meta.phase.data, CoveragePhaseData)
    return not is_coverage or next(coverage_cases) % COVERAGE_SAMPLE == 0
