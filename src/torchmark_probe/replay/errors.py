"""Why a recorded call cannot be made again: one family, each with a sentence for a table's row."""

from torchmark_probe.zygote.failures import UnsupportedError


class CannotRebuildError(UnsupportedError):
    """A recorded call that cannot be made again; the sentence says why."""


class DamagedRecordError(CannotRebuildError):
    """A record that means nothing: a negative size, strides that leave the memory, no JSON."""


class UnknownOperatorError(CannotRebuildError):
    """A torch without this operator, or one that a trace may not name."""


class TooLargeError(CannotRebuildError, MemoryError):
    """A call that needs more memory than is free."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(
            "the call needs {}, {} are free".format(amount_of(needed), amount_of(free))
        )
        self.needed = needed
        """Bytes of its inputs and outputs."""

        self.free = free
        """Bytes that were free on this machine."""


def amount_of(size: int) -> str:
    """Bytes as people read them: "1.0 TB"."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000:
            return "{:.0f} B".format(value) if unit == "B" else "{:.1f} {}".format(value, unit)
        value /= 1000
    return "{:.1e} EB".format(value)
