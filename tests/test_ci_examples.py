"""The workflows in `examples/ci` are valid, and their shell steps do what the page about CI says.

Only the steps that install something are played by stand-ins. The package is pure Python, and both
sides import it from their checkouts. The torch is one that starts in no time.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests import light_torch
from tests.cli.test_cli import site
from tests.repositories import TWICE_THE_WORK, Checkout, make_checkout
from torchmark.store import open_store

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "ci"

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def object_of(*required: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


STEP = {
    "oneOf": [
        object_of(
            "uses",
            uses={"type": "string", "pattern": r"^[\w-]+/[\w-]+@v\d+$"},
            name={"type": "string"},
            **{"if": {"type": "string"}, "with": TEXTS},
        ),
        object_of(
            "run",
            run={"type": "string"},
            name={"type": "string"},
            env=TEXTS,
            **{"if": {"type": "string"}},
        ),
    ]
}
GITHUB = object_of(
    "on",
    "jobs",
    name={"type": "string"},
    on={"enum": ["push", "pull_request", "schedule"]},
    permissions=object_of(contents={"enum": ["read", "write"]}),
    env=TEXTS,
    jobs={
        "type": "object",
        "additionalProperties": object_of(
            "runs-on",
            "steps",
            steps={"type": "array", "items": STEP, "minItems": 1},
            **{
                "runs-on": {"type": "string"},
                "timeout-minutes": {"type": "string", "pattern": r"^\d+$"},
            },
        ),
    },
)
GITLAB = {
    "type": "object",
    "additionalProperties": object_of(
        "script",
        image={"type": "string"},
        rules={"type": "array", "items": object_of("if", **{"if": {"type": "string"}})},
        variables={"type": "object", "additionalProperties": {"type": "string"}},
        script={"type": "array", "items": {"type": "string"}},
        artifacts=object_of(
            "paths",
            when={"enum": ["on_success", "on_failure", "always"]},
            paths={"type": "array", "items": {"type": "string"}},
        ),
    ),
}
"""The parts of the formats that the examples use: an unknown key is an error there, too."""

INSTALLED = """#!/bin/bash
echo "$(basename "$0") $*" >> "$INSTALLED"
"""


def read(name: str) -> dict[str, Any]:
    """The workflow, with all values as text: YAML 1.1 takes the key `on` for a truth value."""
    found: dict[str, Any] = yaml.load((EXAMPLES / name).read_text(), yaml.BaseLoader)
    return found


@pytest.mark.parametrize(("name", "schema"), [("github.yml", GITHUB), ("gitlab.yml", GITLAB)])
def test_the_workflows_have_only_keys_that_the_services_know(
    name: str, schema: dict[str, Any]
) -> None:
    workflow = read(name)
    jsonschema.validate(workflow, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**workflow, "misspelt": {"scrpt": []}}, schema)


class Runner:
    """A machine of a CI service, with a checkout of a pull request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        origin = make_checkout(folder / "origin")
        origin.git("clone", "--quiet", str(origin.root), str(folder / "checkout"))
        self.checkout = Checkout(folder / "checkout", origin.first)
        self.checkout.branch()
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in ("sudo", "apt-get", "pip"):
            self._add(tool, INSTALLED)
        python = shlex.quote(sys.executable)
        self._add("torchmark", f'#!/bin/bash\nexec {python} -m torchmark "$@"\n')
        light_torch.put_into(folder / "light")
        self.installed = folder / "installed"

    def _add(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *steps: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run steps as the services do: each in bash, until one fails."""
        environment = {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.folder / 'light'}:{site()}",
            "XDG_DATA_HOME": str(self.folder),
            "INSTALLED": str(self.installed),
            **{name: str(value) for name, value in variables.items()},
            "BUDGET": "0.3",
        }
        for step in steps:
            done = subprocess.run(
                ["bash", "-e", "-c", step],
                cwd=self.checkout.root,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            if done.returncode != 0:
                break
        return done

    def github(self) -> subprocess.CompletedProcess[str]:
        workflow = read("github.yml")
        (job,) = workflow["jobs"].values()
        steps = [step["run"] for step in job["steps"] if "run" in step]
        summary = self.folder / "summary.md"
        return self.run(
            *steps, **workflow["env"], GITHUB_BASE_REF="main", GITHUB_STEP_SUMMARY=summary
        )

    def gitlab(self) -> subprocess.CompletedProcess[str]:
        (job,) = read("gitlab.yml").values()
        base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": self.checkout.first}
        return self.run(*job["script"], **job["variables"], **base)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    for name in ("GITHUB_BASE_REF", "GITHUB_STEP_SUMMARY", "CI_MERGE_REQUEST_DIFF_BASE_SHA"):
        monkeypatch.delenv(name, raising=False)
    return Runner(tmp_path)


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_the_steps_pass_a_clean_pull_request_and_fail_a_slow_one(
    runner: Runner, service: str
) -> None:
    start = getattr(runner, service)
    runner.checkout.commit("A comment", {"src/lists/more.py": "# nothing\n"})
    done = start()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "valgrind" in runner.installed.read_text()
    assert (runner.checkout.root / "report.md").read_text().startswith("**Passed: ")

    slow = {"src/lists/__init__.py": TWICE_THE_WORK}
    (runner.checkout.root / "report.md").unlink()
    (runner.checkout.root / "report.html").unlink()
    runner.checkout.commit("Do the work twice", slow)
    done = start()
    assert done.returncode == 1, done.stdout + done.stderr
    report = (runner.checkout.root / "report.md").read_text()
    assert report.startswith("**Failed: ")
    rows = [line for line in report.partition("<details>")[0].splitlines() if "slower" in line]
    assert any("double" in row for row in rows)
    assert not any("sort" in row for row in rows)
    if service == "github":
        assert (runner.folder / "summary.md").read_text().endswith(report)


def test_the_nightly_script_measures_judges_and_publishes(runner: Runner) -> None:
    script = str(EXAMPLES / "nightly.sh")
    site_folder, store = runner.folder / "site", runner.folder / "marks.db"
    variables = {
        "CHECKOUT": runner.checkout.root,
        "SITE": site_folder,
        "STORE": store,
        "PYTHONPATH": f"{runner.folder / 'light'}:{site()}:{runner.checkout.root / 'src'}",
    }
    done = runner.run(script, **variables)
    assert done.returncode == 4, (
        done.stdout + done.stderr
    )  # there is no baseline in the first night
    assert "there is no baseline" in done.stderr
    assert (site_folder / "index.html").exists()
    with open_store(store) as kept:
        (summary,) = kept.runs()
        assert summary.environments[0].fact("git", "branch") == "main"
        assert summary.failed == 0
