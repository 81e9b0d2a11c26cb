"""The Python example of every reference page prints what the curl example prints."""

import datetime as dt
import gc
import html
import json
import re
import urllib.request
from decimal import Decimal
from typing import Any

import pytest

from .service import Service
from .test_endpoints import SPECIFICATIONS

PAGE_LINK = re.compile(r'href="(/v1/docs/reference/[^"#]+)"')
CODE = re.compile(r">(Shell|Python)</p><pre[^>]*><code>(.*?)</code>", re.DOTALL)


def fetch(service: Service, path: str) -> str:
    request = urllib.request.Request(service.url + path, headers={"Authorization": f"Bearer {service.key}"})
    with urllib.request.urlopen(request) as response:
        return str(response.read().decode())


def read_example(page: str, language: str) -> str | None:
    """Returns the first code block of a page in a language."""
    found = next((code for label, code in CODE.findall(page) if label == language), None)
    return None if found is None else html.unescape(re.sub(r"<[^>]+>", "", found))


def with_text_times(value: Any) -> Any:
    """Returns a decoded body with dates and times as the service sends them."""
    if isinstance(value, dict):
        return {name: with_text_times(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_text_times(item) for item in value]
    return value.isoformat() if isinstance(value, dt.date) else value


# The examples leave their connections open until the program ends, and one calls a deprecated endpoint.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_prints_what_curl_prints(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKERLINE_KEY", service.key)
    called: set[str] = set()
    for link in sorted(set(PAGE_LINK.findall(fetch(service, "/v1/docs/reference")))):
        page = fetch(service, link)
        program = read_example(page, "Python")
        if program is None:
            continue
        curl = re.search(r'"(http://[^/"]+)(/[^"]*)"$', read_example(page, "Shell") or "")
        assert curl is not None, link
        printed: list[Any] = []
        source = program.replace(curl[1], service.url)
        exec(compile(source, link, "exec"), {"__name__": "__main__", "print": printed.append})
        expected = json.loads(fetch(service, curl[2]), parse_float=Decimal)
        path, _, query = curl[2].partition("?")
        if query:
            assert [with_text_times(body) for body in printed] == [expected], curl[2]
        else:
            # Without parameters, responses are about the account or the service, and change with every request.
            assert [body.keys() for body in printed] == [expected.keys()], curl[2]
        called.add(path)
    gc.collect()
    assert called == {endpoint.path for endpoint in SPECIFICATIONS.values()}
