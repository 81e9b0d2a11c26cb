"""The examples of the guide print what the guide shows. UPDATE_EXAMPLES=1 writes the current output into it."""

import gc
import os
import re
from pathlib import Path

import pytest

from .service import ROOT, Service

GUIDE = ROOT / "docs/guides/python.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
EXAMPLES = [match[1] for match in EXAMPLE.finditer(GUIDE.read_text(encoding="utf-8"))]


def test_has_examples() -> None:
    assert len(EXAMPLES) >= 6


# The examples leave their connections open until the program ends.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.split("\n")[-2])
def test_example_prints_what_the_guide_shows(
    program: str,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TICKERLINE_URL", service.url)
    monkeypatch.setenv("TICKERLINE_KEY", service.key)
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "__main__"})
    gc.collect()
    output = capsys.readouterr().out
    guide = GUIDE.read_text(encoding="utf-8")
    example = next(match for match in EXAMPLE.finditer(guide) if match[1] == program)
    if os.environ.get("UPDATE_EXAMPLES") == "1" and example[2] is not None:
        GUIDE.write_text(f"{guide[: example.start(2)]}{output}{guide[example.end(2) :]}", encoding="utf-8")
    else:
        assert example[2] is None or output == example[2]
