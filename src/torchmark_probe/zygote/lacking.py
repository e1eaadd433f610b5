"""Recognises errors that mean that an environment lacks something, by their messages.

If this torch lacks an operator, a function, a kernel for a dtype or a device, the case has not
failed: it is skipped, and a sentence says what is missing. torch has no exception class for this,
so its messages are matched; they are the same from 1.13 to 2.13.
"""

import re
import sys

_LACKING = (
    (r"^module '(torch[\w.]*)' has no attribute '(\w+)'", "{}.{}"),
    (r"^cannot import name '(\w+)' from '(torch[\w.]*)'", "{1}.{0}"),
    (r"^No module named '(torch\.[\w.]+)'", "{}"),
    (r"^(?:type object )?'(?:Tensor|Parameter)'(?: object)? has no attribute '(\w+)'", "Tensor.{}"),
    (r"^'_OpNamespace' '(\w+)' object has no attribute '(\w+)'", "operator {}.{}"),
    (r"^The underlying op of '([\w.]+)' has no overload name '(\w+)'", "operator {}.{}"),
    (r"^(?:No such operator|Unknown builtin op:) (\w+)::(\w+)", "operator {}.{}"),
    (r"^Could not run '(\w+)::([\w.]+)' with arguments from the '(\w+)' backend",
     "operator {}.{} for {}"),
    (r"^\"?([^\"\n]{1,80}?)\"? not implemented for '?(\w+)", "{} for {}"),
    (r"^Torch not compiled with (\w+) enabled", "{}"),
)  # fmt: skip
"""Messages of torch and Python, with the name of what is missing."""

_PATTERNS = tuple((re.compile(pattern), name) for pattern, name in _LACKING)


def what_is_lacking(error: BaseException) -> str:
    """Return the sentence; empty for any other kind of error.

    >>> what_is_lacking(ImportError("cannot import name 'vmap' from 'torch' (torch/__init__.py)"))
    'torch ... has no torch.vmap'
    >>> what_is_lacking(AttributeError("module 'mine' has no attribute 'vmap'"))
    ''
    """
    text = str(error).strip()
    for pattern, name in _PATTERNS:
        found = pattern.match(text)
        if found:
            version = getattr(sys.modules.get("torch"), "__version__", "of this environment")
            return "torch {} has no {}".format(version, name.format(*found.groups()))
    return ""
