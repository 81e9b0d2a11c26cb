"""Drivers that run the same test with the synchronous and with the asynchronous client."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any

from tickerline import AsyncTickerline, ExportFile, ResponseMetadata, Tickerline, types
from tickerline._calls import Reading
from tickerline._requests import Timing


class Driver(ABC):
    """Calls endpoints by name. Its clock does not wait, but records each wait in `waits`."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        random: float = 0.0,
        now: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.waits: list[float] = []
        self.responses: list[tuple[str, ResponseMetadata]] = []
        self.reading: Reading | None = None
        timing = Timing(lambda: now, lambda: random, monotonic, self.waits.append, self._sleep_async)
        options = {"on_response": lambda path, told: self.responses.append((path, told)), **options}
        self.start(url, key, {**options, "_timing": timing})

    async def _sleep_async(self, seconds: float) -> None:
        self.waits.append(seconds)

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def start(self, url: str, key: str | None, options: dict[str, Any]) -> None: ...

    @abstractmethod
    def get(self, name: str, /, **query: Any) -> Any: ...

    @abstractmethod
    def pages(self, name: str, /, **query: Any) -> list[Any]: ...

    @abstractmethod
    def rows(self, name: str, /, **query: Any) -> list[Any]: ...

    @abstractmethod
    def first_row(self, name: str, /, **query: Any) -> Any:
        """Reads one row, then stops."""

    @abstractmethod
    def estimate(self, name: str, /, **query: Any) -> types.Estimate: ...

    @abstractmethod
    def frame(self, name: str, query: dict[str, Any], /, **options: Any) -> Any: ...

    @abstractmethod
    def download(self, name: str, file: Path, query: dict[str, Any], /, **options: Any) -> ExportFile: ...

    @abstractmethod
    def follow(self, count: int, found: list[Any] | None = None, /, **query: Any) -> list[Any]:
        """Reads the first changes into `found`, then stops."""

    @abstractmethod
    def close(self) -> None: ...


class SyncDriver(Driver):
    def start(self, url: str, key: str | None, options: dict[str, Any]) -> None:
        self.client = Tickerline(url, key, **options)

    def _call(self, name: str, query: dict[str, Any]) -> Any:
        return getattr(self.client, name)(**query)

    def get(self, name: str, /, **query: Any) -> Any:
        return self._call(name, query).get()

    def pages(self, name: str, /, **query: Any) -> list[Any]:
        return list(self._call(name, query).pages())

    def rows(self, name: str, /, **query: Any) -> list[Any]:
        self.reading = rows = self._call(name, query).rows()
        return list(rows)

    def first_row(self, name: str, /, **query: Any) -> Any:
        with self._call(name, query).rows() as rows:
            return next(rows)

    def estimate(self, name: str, /, **query: Any) -> types.Estimate:
        estimate: types.Estimate = self._call(name, query).estimate()
        return estimate

    def frame(self, name: str, query: dict[str, Any], /, **options: Any) -> Any:
        return self._call(name, query).frame(**options)

    def download(self, name: str, file: Path, query: dict[str, Any], /, **options: Any) -> ExportFile:
        downloaded: ExportFile = self._call(name, query).download(file, **options)
        return downloaded

    def follow(self, count: int, found: list[Any] | None = None, /, **query: Any) -> list[Any]:
        found = [] if found is None else found
        with self.client.follow_changes(**query) as changes:
            while len(found) < count:
                found.append(next(changes))
        return found

    def close(self) -> None:
        self.client.close()


class AsyncDriver(Driver):
    def start(self, url: str, key: str | None, options: dict[str, Any]) -> None:
        self.client = AsyncTickerline(url, key, **options)
        self.loop = asyncio.new_event_loop()

    def _call(self, name: str, query: dict[str, Any]) -> Any:
        return getattr(self.client, name)(**query)

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    def get(self, name: str, /, **query: Any) -> Any:
        return self._run(self._call(name, query).get())

    def pages(self, name: str, /, **query: Any) -> list[Any]:
        async def read() -> list[Any]:
            return [page async for page in self._call(name, query).pages()]

        return list(self._run(read()))

    def rows(self, name: str, /, **query: Any) -> list[Any]:
        async def read() -> list[Any]:
            self.reading = rows = self._call(name, query).rows()
            async with aclosing(rows):
                return [row async for row in rows]

        return list(self._run(read()))

    def first_row(self, name: str, /, **query: Any) -> Any:
        async def read() -> Any:
            async with self._call(name, query).rows() as rows:
                return await anext(rows)

        return self._run(read())

    def estimate(self, name: str, /, **query: Any) -> types.Estimate:
        estimate: types.Estimate = self._run(self._call(name, query).estimate())
        return estimate

    def frame(self, name: str, query: dict[str, Any], /, **options: Any) -> Any:
        return self._run(self._call(name, query).frame(**options))

    def download(self, name: str, file: Path, query: dict[str, Any], /, **options: Any) -> ExportFile:
        downloaded: ExportFile = self._run(self._call(name, query).download(file, **options))
        return downloaded

    def follow(self, count: int, found: list[Any] | None = None, /, **query: Any) -> list[Any]:
        found = [] if found is None else found

        async def read() -> None:
            async with self.client.follow_changes(**query) as changes:
                while len(found) < count:
                    found.append(await anext(changes))

        self._run(read())
        return found

    def close(self) -> None:
        self._run(self.client.aclose())
        self._run(self.loop.shutdown_asyncgens())
        self.loop.close()


DRIVERS: list[type[Driver]] = [SyncDriver, AsyncDriver]
