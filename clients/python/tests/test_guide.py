"""The examples of the guide print what the guide shows. UPDATE_EXAMPLES=1 writes the current output into it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .service import ROOT, Service

GUIDE = ROOT / "docs/guides/python.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
EXAMPLES = [match[1] for match in EXAMPLE.finditer(GUIDE.read_text(encoding="utf-8"))]


def test_has_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.split("\n")[-2])
def test_example_prints_what_the_guide_shows(program: str, service: Service, tmp_path: Path) -> None:
    environment = {**os.environ, "TICKERLINE_URL": service.url, "TICKERLINE_KEY": service.key}
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    guide = GUIDE.read_text(encoding="utf-8")
    example = next(match for match in EXAMPLE.finditer(guide) if match[1] == program)
    if os.environ.get("UPDATE_EXAMPLES") == "1" and example[2] is not None:
        GUIDE.write_text(f"{guide[: example.start(2)]}{result.stdout}{guide[example.end(2) :]}", encoding="utf-8")
    else:
        assert example[2] is None or result.stdout == example[2]
