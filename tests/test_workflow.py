"""The workflow for GitHub Actions that the docs give: it is YAML, and its commands have the options that they use."""

import re
from pathlib import Path

import pytest

from epsaudit.tools.testing import plugin

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "github-actions.md"


def jobs():
    yaml = pytest.importorskip("yaml")
    first, second = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    workflow = yaml.safe_load(first)
    assert {"push", "pull_request", "schedule"} <= set(workflow[True])  # YAML reads "on" as true
    return {**workflow["jobs"], **yaml.safe_load(second)}


def test_pull_requests_are_seeded_by_names_and_nights_afresh():
    steps = {step["name"]: step for step in jobs()["tests"]["steps"] if "name" in step}
    seeded, fresh = steps["seeded by the tests' names"], steps["freshly seeded, with ten times the runs"]
    assert "pull_request" in seeded["if"]
    assert "--privacy-seed" not in seeded["run"]
    assert "schedule" in fresh["if"]
    assert 'seed="${{ github.run_id }}"' in fresh["run"]


def test_every_option_exists_and_every_job_checks_out_what_it_tests():
    for job in jobs().values():
        assert next(step["uses"] for step in job["steps"] if "uses" in step).startswith("actions/checkout@")
        for option in re.findall(r"--privacy-([a-z-]+)", " ".join(step.get("run", "") for step in job["steps"])):
            assert option in plugin.OPTION_HELP, option
