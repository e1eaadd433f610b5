"""The definitions that ship with torchmark, and the way to those of other people."""

SHIPPED = {
    "standard": "torchmark.define.suites.standard",
    "overrides": "torchmark.define.suites.overrides",
}
"""The suites that go by a short name, and the modules that hold them."""
