"""Names of types that definitions of the instruction-count suite are annotated with."""

from __future__ import annotations

from typing import Any, TypeAlias

from core.api import AutoLabels, GroupedBenchmark, TimerArgs

Label: TypeAlias = tuple[str, ...]

Definition: TypeAlias = dict[Any, Any]
"""Labels (a str, a tuple of them or None) to definitions or to dictionaries of the same kind."""

FlatIntermediateDefinition: TypeAlias = dict[Label, TimerArgs | GroupedBenchmark]
FlatDefinition: TypeAlias = tuple[tuple[Label, AutoLabels, TimerArgs], ...]
