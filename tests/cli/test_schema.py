"""`torchmark schema` prints the schema that every text of torchmark satisfies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from torchmark.cli import cli
from torchmark.errors import InvalidArgumentError
from torchmark.model.codec import json_schema

if TYPE_CHECKING:
    from pathlib import Path


def test_schema_is_printed_or_written_to_a_file(tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["schema"])
    assert printed.exit_code == 0
    assert json.loads(printed.output) == json.loads(json.dumps(json_schema()))
    file = tmp_path / "schema.json"
    written = CliRunner().invoke(cli, ["schema", "--output", str(file)])
    assert (written.exit_code, written.output) == (0, "")
    assert file.read_text() == printed.output


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["schema", "-o", str(tmp_path / "none" / "schema.json")])
    assert isinstance(done.exception, InvalidArgumentError)
    assert "cannot be written" in str(done.exception)
