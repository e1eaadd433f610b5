"""The standard suite as the instruction-count suite has it: one dictionary of full labels."""

from __future__ import annotations

from core.types import FlatIntermediateDefinition
from core.utils import flatten

from torchmark.define.suites.standard import SUITE

BENCHMARKS: FlatIntermediateDefinition = flatten(SUITE)
