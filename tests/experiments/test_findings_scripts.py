"""The scripts on the pages of docs/findings: each runs to its end in the library's own environment and refutes."""

import re
import subprocess
from pathlib import Path

import pytest

from epsaudit.experiments.libraries.environments import ENVIRONMENTS, Environment, cache
from epsaudit.experiments.libraries.rows import findings
from epsaudit.running.files import write_whole

PAGES = Path(__file__).parents[2] / "docs" / "findings"
BUGS = [bug for bug in findings() if bug.page]
SCRIPT = re.compile(r"<!-- skip: next \"needs (.*?)\" -->\n\n```python\n(.*?)```", re.DOTALL)
SOURCES = {"smartnoise-synth-1.0.8": ("antlr4-python3-runtime",)}
BESIDE = {
    "smartnoise-synth-1.0.8": {  # the audited environment has parts of the package alone; the script imports it whole
        "antlr4-python3-runtime": "4.9.3",
        "faker": "40.54.0",
        "pandas": "3.1.1",
        "python-dateutil": "4.0.0",
        "pyyaml": "6.0.3",
        "six": "1.17.0",
        "sqlalchemy": "2.1.9",
        "typing_extensions": "4.16.0",
        "tzdata": "2026.6",
    }
}
SECONDS, CHANCE = 1200.0, 1e-3
"""A script takes a minute of one processor at most; its p-value or limits are at least as sure as this."""


def script(page: str) -> str:
    """The script of a page."""
    ((_, text),) = SCRIPT.findall((PAGES / f"{page}.md").read_text(encoding="utf-8"))
    return text


def with_scipy(own: Environment) -> Environment:
    """The environment of a library, and with scipy, which the scripts want, where it has none."""
    if "scipy" in own.pins:
        return own
    others = ENVIRONMENTS["diffprivlib-0.6.6"].pins
    pins = {"numpy": others["numpy"], **own.pins, "scipy": others["scipy"], **BESIDE.get(own.name, {})}
    file = cache() / "requirements" / f"{own.name}-and-scipy.txt"
    write_whole(file, "".join(f"{name}=={version}\n" for name, version in sorted(pins.items())))
    sources = (*own.from_source, *SOURCES.get(own.name, ()))
    return Environment(f"{own.name}-and-scipy", own.pythons, sources, file)


def refuted(said: str, epsilon: float) -> list[bool]:
    """Whether each p-value or lower limit that a script prints contradicts the claim."""
    values = [float(value) < CHANCE for value in re.findall(r"p-value: (\S+)", said)]
    values += [float(value) > epsilon for value in re.findall(r"epsilon is at least (\S+) at 99\.9 %", said)]
    limits = re.findall(r"at least (\S+) at 99\.9 % confidence, claimed (\S+)", said)
    return values + [float(least) > float(claimed) for least, claimed in limits]


@pytest.mark.libraries
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.page)
def test_a_script_refutes_the_claim_of_its_page(bug, tmp_path):
    """Each fails by chance with probability below 1e-3, at the probabilities that its page gives or has counted."""
    row = next(case for case in bug.cases if case.role == "affected")
    (tmp_path / "script.py").write_text(script(bug.page), encoding="utf-8")
    words = [str(with_scipy(row.environment).python()), "-E", "-s", str(tmp_path / "script.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    verdicts = refuted(done.stdout, row.stated_claim.epsilon)
    assert verdicts, done.stdout
    assert all(verdicts), done.stdout
