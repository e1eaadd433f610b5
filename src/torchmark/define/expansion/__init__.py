"""Definitions become cases: what is written once is run in every language, runtime and pass."""

from torchmark.define.expansion.cases import features_asked, materialize
from torchmark.define.expansion.selection import selected
from torchmark.define.expansion.snippets import MODULE_NAME, setup_with_model

__all__ = ["MODULE_NAME", "features_asked", "materialize", "selected", "setup_with_model"]
