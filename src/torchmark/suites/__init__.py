"""The definitions that ship with torchmark, and the way to those of other people."""

SHIPPED = {
    "standard": "torchmark.suites.standard",
    "overrides": "torchmark.suites.overrides",
}
"""The suites that go by a short name, and the modules that hold them."""
