"""The probe as one zip file that any Python can run.

Nothing is installed in an environment under test, and nothing is written there: a zygote reads
the file from memory. Its bytes are the same wherever it is built.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources

_ENTRY = b"""\
import os
from torchmark_probe.__main__ import main
main()
os._exit(0)
"""


@cache
def archive_bytes() -> bytes:
    """The zip file's bytes: sorted names, one date for all, and no compression.

    Under valgrind the inflating of a few kilobytes would be felt.
    """
    files = {
        f"torchmark_probe/{entry.name}": entry.read_bytes()
        for entry in resources.files("torchmark_probe").iterdir()
        if entry.name.endswith(".py")
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, "__main__.py": _ENTRY}.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()
