from collections.abc import Iterator

import pytest

from .drivers import DRIVERS, Driver
from .service import Service, running_service


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with running_service() as running:
        yield running


@pytest.fixture(params=DRIVERS)
def driver_class(request: pytest.FixtureRequest) -> type[Driver]:
    """The synchronous or the asynchronous client."""
    driver: type[Driver] = request.param
    return driver


@pytest.fixture
def driver(driver_class: type[Driver], service: Service) -> Iterator[Driver]:
    with driver_class(service.url, service.key) as running:
        yield running
