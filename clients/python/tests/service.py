"""Starts the service with `npm start`, in a new home folder, on a free port.

`python tests/service.py COMMAND…` runs a command while the service is running.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Service:
    url: str
    key: str


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_service() -> Iterator[Service]:
    """Uses the service at TICKERLINE_URL with TICKERLINE_KEY; without these variables, starts a new service."""
    if "TICKERLINE_URL" in os.environ:
        yield Service(os.environ["TICKERLINE_URL"], os.environ["TICKERLINE_KEY"])
        return
    with new_service() as (service, _):
        yield service


@contextlib.contextmanager
def new_service() -> Iterator[tuple[Service, Path]]:
    """Starts a service with the sample data. Returns it with its home folder."""
    port = find_free_port()
    with tempfile.TemporaryDirectory(prefix="tickerline-python-") as home:
        process = subprocess.Popen(
            ["npm", "start"],
            cwd=ROOT,
            env={**os.environ, "PORT": str(port), "TICKERLINE_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _wait_until_ready(process)
            yield Service(f"http://127.0.0.1:{port}", (Path(home) / "demo-key").read_text().strip()), Path(home)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.communicate()


def run_command(home: Path, *arguments: str) -> str:
    """Runs a command of the service on the database in its home folder, and returns its output."""
    environment = {**os.environ, "TICKERLINE_HOME": str(home)}
    command = [str(ROOT / "src" / "operate" / "cli" / "tickerline"), *arguments]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _wait_until_ready(process: "subprocess.Popen[str]") -> None:
    """Returns when the service prints a request to try."""
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if "curl -H" in line:
            return
    raise RuntimeError(f"The service ended before it was ready:\n{output}")


def run_with(service: Service, prefix: str, command: list[str]) -> int:
    """Runs a command that finds the service in the environment. Returns its exit code."""
    environment = {**os.environ, f"{prefix}_URL": service.url, f"{prefix}_KEY": service.key}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    with running_service() as running:
        code = run_with(running, "TICKERLINE", sys.argv[1:])
    sys.exit(code)
