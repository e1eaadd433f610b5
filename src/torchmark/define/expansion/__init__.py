"""Definitions become cases: what is written once is run in every language, runtime and pass."""

from torchmark.define.expansion.cases import features_asked, materialize
from torchmark.define.expansion.model_files import MODULE_NAME, setup_with_model
from torchmark.define.expansion.selection import selected

__all__ = ["MODULE_NAME", "features_asked", "materialize", "selected", "setup_with_model"]
