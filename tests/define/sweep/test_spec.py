from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.define.sweep.specs import spec
from torchmark.define.sweep.points import with_valid_points
from torchmark.define.sweep.spec import indices, read_spec
from torchmark.errors import (
    DefinitionError,
    InvalidArgumentError,
    SuiteFileError,
    SuiteNotFoundError,
)
from torchmark_probe.zygote.messages import Input

if TYPE_CHECKING:
    from pathlib import Path

SCALES = {"batch": [1, 2], "features": [8], "times": [2]}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"input_scales": {**SCALES, "heads": [2]}}, "'heads' of input_scales is not used"),
        ({"input_params": [["batch", "width"]]}, "'width' of input_params has no sizes"),
        ({"model_init_params": ["depth"]}, "'depth' of model_init_params has no sizes"),
        ({"input_scales": {**SCALES, "batch": [4, -3]}}, "'batch' has the size -3"),
        ({"input_scales": {**SCALES, "features": [0]}}, "'features' has the size 0"),
        ({"input_scales": [1]}, "input_scales is [1]"),
        ({"input_params": ["batch"]}, "input 1 of input_params is 'batch'"),
        ({"input_params": [["batch", -1]]}, "the dimension -1"),
        ({"input_params": [{"dims": ["batch"], "dtype": "int64"}]}, "integers need below"),
        ({"model": 3}, "model is 3"),
        ({"valid": 3}, "valid is 3; write a function of dimensions"),
        ({"valid": lambda heads: True}, "valid has the parameter 'heads'; the dimensions are"),
        ({"valid": lambda *batch: True}, "valid raised TypeError"),
        ({"valid": lambda dtype: True}, "valid has the parameter 'dtype'"),
        ({"valid": "heads == 1"}, "valid: unknown name 'heads'; the names are batch"),
        ({"valid": "batch <"}, "valid: invalid syntax"),
        ({"valid": "open('x')"}, "valid does not support calls"),
        ({"valid": lambda batch: batch % 2}, "valid is 1 at batch=1 features=8 times=2, which"),
        ({"valid": "batch % 2"}, "valid is 1 at batch=1 features=8 times=2, which is neither"),
        ({"valid": lambda batch: 1 / (batch - 2) < 9},
         "valid raised ZeroDivisionError: division by zero, at batch=2 features=8 times=2"),
        ({"valid": "1 // (batch - 2) < 9"}, "at batch=2 features=8 times=2, valid: integer"),
        ({"valid": lambda batch: batch > 9}, "valid is False at all 2 points"),
        ({"input_scales": {**SCALES, "threads": [1, 0]}}, "threads must be at least 1, not 0"),
        ({"input_scales": {**SCALES, "threads": [1, 2]}, "job_configs": {"threads": [2]}},
         "threads are in both input_scales and job_configs"),
        ({"input_scales": {**SCALES, "threads": [1]}, "input_params": [["threads"]]},
         "'threads' is the number of threads of torch"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_name_and_value(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        with_valid_points(spec(**{"input_scales": SCALES, **changes}))
    assert named in str(raised.value)


def test_what_the_model_alone_is_given_may_be_any_number() -> None:
    """The padding of a convolution is 0, the axis of a softmax -1."""
    assert spec(input_scales={**SCALES, "times": [0, -1]}).scales["times"] == (0, -1)


def test_indices_are_below_a_dimension() -> None:
    found = spec(
        input_params=[indices("batch", 4, below="features")],
        model_init_params=["times"],
    )
    assert found.input_names == ("batch", "features")
    assert found.inputs == (Input(dims=["batch", 4], dtype="int64", below="features"),)


def test_sizes_are_set_for_dimensions_that_there_are() -> None:
    assert spec().with_sizes({"batch": (7,)}).scales["batch"] == (7,)
    with pytest.raises(DefinitionError, match="no dimension 'bach'; the dimensions are batch"):
        spec().with_sizes({"bach": (7,)})
    with pytest.raises(DefinitionError, match="'batch' has the size -7"):
        spec().with_sizes({"batch": (-7,)})


def test_threads_are_set_in_place_of_those_of_the_configs() -> None:
    given = spec(job_configs={"backend": ["pt", "ort"], "threads": [2, 4]})
    found = given.with_sizes({"threads": (1, 3)})
    assert found.scales["threads"] == (1, 3)
    assert [(each.backend, each.threads) for each in found.configs] == [("pt", 1), ("ort", 1)]


def test_a_file_that_lacks_a_name_is_told_which(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text("def model(x): return x\ninput_params = [['n']]\n")
    with pytest.raises(SuiteFileError, match="model_init_params, input_scales, job_configs must"):
        read_spec(file)
    with pytest.raises(SuiteNotFoundError, match=r"missing\.py"):
        read_spec(tmp_path / "missing.py")
    with pytest.raises(SuiteNotFoundError, match="is a folder; name the Python file of a sweep"):
        read_spec(tmp_path)


def test_a_file_that_raises_is_told_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "raises.py"
    file.write_text("x = 1\nraise RuntimeError('no weights here')\n")
    with pytest.raises(SuiteFileError, match=r"raises.py, line 2: RuntimeError: no weights here"):
        read_spec(file)
