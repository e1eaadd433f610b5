"""What an environment lacks, in a sentence, read off the message of what was raised there.

An operator, a function, a dtype of a kernel or a device that this torch does not have is no failure
of the case: it is skipped, and the sentence says what is missing. torch has no class of exceptions
for it, so its messages have to do; they are the same from 1.13 to 2.13.
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
"""How torch and Python say it, and what it is that is not there."""

_PATTERNS = tuple((re.compile(pattern), name) for pattern, name in _LACKING)


def what_is_lacking(error: BaseException) -> str:
    """The sentence; empty for an error of any other kind.

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
