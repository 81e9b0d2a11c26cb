"""The version of the package, which equals the version of the service's release."""

__version__ = "1.0.0"
