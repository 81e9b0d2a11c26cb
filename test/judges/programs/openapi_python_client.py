"""Imports every module of the client of openapi-python-client, and calls the service with it."""

import importlib
import os
import pkgutil

import generated
from generated import AuthenticatedClient
from generated.api.ticker_changes import ticker_changes_resolve

for module in pkgutil.walk_packages(generated.__path__, "generated."):
    importlib.import_module(module.name)

client = AuthenticatedClient(base_url=os.environ["TICKERLINE_URL"], token=os.environ["TICKERLINE_KEY"])

found = ticker_changes_resolve.sync(client=client, ticker="OSTK")
assert found.results[0].history[0].new_ticker == "BYON", found

refused = ticker_changes_resolve.sync(client=client, ticker="META")
assert refused.error.code == "ambiguous_ticker_lineage", refused
