"""A torch with one function made a little slower, for whoever has a `sitecustomize` on its path."""

from __future__ import annotations

_PATCH = """
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "{module}":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            original = module.{function}

            def {function}(*args, **kwargs):
                {more}
                return original(*args, **kwargs)

            module.{function} = {function}

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


def sitecustomize(module: str, function: str, *, more: str) -> str:
    """The function does `more` first, a statement of one line.

    Importing torch there would move every object; so the function is exchanged when it comes.
    """
    return _PATCH.format(module=module, function=function, more=more)
