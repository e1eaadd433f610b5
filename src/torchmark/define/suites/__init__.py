"""The suites that ship with torchmark, and the loading of users' suites."""

SHIPPED = {
    "standard": "torchmark.define.suites.standard",
    "overrides": "torchmark.define.suites.overrides",
}
"""Suites with a short name, and the modules that define them."""
