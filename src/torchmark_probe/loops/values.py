"""The globals of a statement, made again in the process that runs it.

Plain values travel in the request. What torch alone can write travels as a file, written by the
control side into a directory that only this user can read.
"""

import ast
import importlib
from typing import Any, Dict

from torchmark_probe.loops.snippets import run_globally


class UnknownValueError(Exception):
    """A global of a kind that this probe cannot make."""


def make_globals(recipes: Dict[str, Dict[str, Any]], torch: Any) -> Dict[str, Any]:
    """The namespace in which a statement runs: every global by its name.

    A recipe may have a `setup` of its own, such as the import of the file that defines a class.
    """
    namespace: Dict[str, Any] = {}
    for name, recipe in recipes.items():
        if recipe.get("setup"):
            run_globally(recipe["setup"], namespace)
        namespace[name] = _make(name, recipe, torch)
    return namespace


def imports(recipes: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
    """The modules among the globals that an `import` can name, by the names of the globals."""
    modules = {
        name: recipe["value"] for name, recipe in recipes.items() if recipe["kind"] == "import"
    }
    return {
        name: module
        for name, module in modules.items()
        if all(part.isidentifier() for part in [name, *module.split(".")])
    }


def _make(name: str, recipe: Dict[str, Any], torch: Any) -> Any:
    kind = recipe.get("kind")
    if kind == "json":
        return recipe["value"]
    if kind == "literal":
        return ast.literal_eval(recipe["value"])
    if kind == "import":
        return importlib.import_module(recipe["value"])
    if kind == "torch":
        return torch.load(recipe["path"], weights_only=True)
    if kind == "module":
        return _load_module(recipe["path"], torch)
    if kind == "script":
        return torch.jit.load(recipe["path"])
    raise UnknownValueError("the global {!r} is of the unknown kind {!r}".format(name, kind))


def _load_module(path: str, torch: Any) -> Any:
    # A module is code, so it cannot be loaded as weights alone; the file is our own.
    return torch.load(path, weights_only=False)
