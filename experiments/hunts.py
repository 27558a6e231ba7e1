"""Hunts for the known bugs of released libraries, from a schema and a one-line function alone, and for none.

No pair is given: `epsaudit.hunting.hunt.hunt` takes the function, served in the library's own environment, a short
description of its data, and the claim, and has two minutes for each. What is sound is hunted, too: the mechanisms of
this repository and those rows of libraries of which no fault is known, from their own pairs. All verdicts, of bugs and
of what is sound, hold together at 99.9 %, so that anything sound is refuted with probability 1e-3 at most in the whole
study; if anything is, the study ends with an error that names it.

Of the corpus (`epsaudit.experiments.libraries.corpus`) the step of Opacus is not hunted, whose claim depends on the
number of records, nor the last bits of Gaussian noise beside those of Laplace noise.

Libraries draw their own randomness: the same seed gives the same table up to chance. With ``quick`` nothing is
installed, and three sound mechanisms alone are hunted.

Run ``epsaudit experiment run hunts``: two minutes a bug at most on one core, and environments in the cache.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.adapters.registry import Entry, registered
from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.catalogue import ABOVE
from epsaudit.experiments.libraries.environments import NotInstalledError
from epsaudit.experiments.libraries.registry import libraries
from epsaudit.experiments.libraries.versions import ENVIRONMENTS
from epsaudit.hunting.hunt import hunt
from epsaudit.hunting.outcome import Hunt
from epsaudit.hunting.parameters import candidates, read_schema
from epsaudit.hunting.served import served
from epsaudit.reporting.figures import certified_against_proven
from epsaudit.reporting.tables import Column
from epsaudit.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.text import percent

QUESTION = "Does a hunt find the known bugs of released libraries with no pair given, and does it refute what is sound?"
TOGETHER = 0.999
"""Confidence of all verdicts together."""
SECONDS = 120.0
"""For each hunt, on one core."""
SOUND = {"audits": 2, "trials": 20_000, "seconds": SECONDS}
QUICK = {"audits": 1, "trials": 2_000}
COLUMNS = (
    Column("name", "mechanism", "code", width="4.5cm"),
    Column("claim", "claim", "formula", width="1.8cm"),
    Column("lines", "own lines", "count"),
    Column("seconds", "seconds", "count"),
    Column("runs", "runs", "count"),
    Column("certified", "certified", "lower"),
    Column("verdict", "verdict"),
)
NUMBER = {"answers": {}}


@dataclass(frozen=True)
class Bug:
    """A bug as a user meets it who knows the function, what its data are, and what it claims.

    Attributes
    ----------
    version, label : str
        'opendp-0.16.0' and a name.
    imports, line : str
        What stands in the user's file: imports, and the body of ``run(data)``.
    claim : Claim
    data : mapping
        Of the schema, as a file would hold it.
    adjacency : str, optional
        The relation that the claim is for; None for a number that moves by 1.
    """

    version: str
    label: str
    imports: str
    line: str
    claim: Claim
    data: Mapping[str, Any]
    adjacency: str | None = None

    @property
    def name(self) -> str:
        """'opendp-0.16.0/threshold'."""
        return f"{self.version}/{self.label}"

    @property
    def code(self) -> str:
        """The user's file."""
        return f"{self.imports}\n\n\ndef run(data):\n    return {self.line}\n"

    @property
    def lines(self) -> int:
        """How many lines the user writes: of code that are not empty, and one of the schema."""
        return 1 + sum(bool(line) for line in self.code.splitlines())


DIFFPRIVLIB, OPENDP = (
    "import numpy as np\nfrom diffprivlib import mechanisms, models, tools",
    "import opendp.prelude as dp",
)
CONTRIB = f'{OPENDP}\ndp.enable_features("contrib")'
EARLY = """from opendp.mod import enable_features
from opendp.meas import make_base_laplace
enable_features("contrib", "floating-point")"""
COVARIANCE = """import importlib.util
import pandas as pd
FOLDER = importlib.util.find_spec("snsynth").submodule_search_locations[0]
SPEC = importlib.util.spec_from_file_location("dp_covariance", f"{FOLDER}/models/dp_covariance.py")
module = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(module)
UNIT = pd.DataFrame([[0.0, 0.0], [1.0, 1.0]])"""


def bugs() -> list[Bug]:
    """Return the bugs.

    Examples
    --------
    >>> bugs()[0].name, bugs()[0].lines
    ('diffprivlib-0.6.6/nanmean', 5)
    """
    newest, one = "diffprivlib-0.6.6", PureDP(1.0)
    missing = {"numbers": [0, 1], "missing": True}
    found = [
        Bug(
            newest,
            f"nan{name}",
            DIFFPRIVLIB,
            f"tools.nan{name}(np.array(data, float), epsilon=1.0, bounds=(0.0, 1.0))",
            one,
            missing,
            "substitution",
        )
        for name in ("mean", "var", "sum")
    ]
    regression = (
        "models.LinearRegression(epsilon=1.0, bounds_X=(0.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False)"
        ".fit(*np.split(np.array(data, float), 2, axis=1)).coef_"
    )
    weights = (
        "tools.histogram([row[0] for row in data], epsilon=1.0, bins=2, range=(0.0, 1.0), "
        "weights=[row[1] for row in data])[0]"
    )
    found += [
        Bug(newest, "linear-regression", DIFFPRIVLIB, regression, one, _table(("x", 0), ("y", -1)), "substitution"),
        Bug(newest, "histogram-weights", DIFFPRIVLIB, weights, one, _weighed(), "add-remove"),
        Bug(
            "smartnoise-synth-1.0.5",
            "covariance",
            COVARIANCE,
            'list(module.DPcovariance(len(data), ["a", "b"], UNIT, 1.0)'
            '.release(pd.DataFrame(data, columns=["a", "b"], dtype=float)))',
            one,
            _table(("a", 0), ("b", 0)),
            "substitution",
        ),
        *(_threshold(f"opendp-{version}") for version in ("0.14.0", "0.16.0")),
        Bug(
            "opendp-0.14.1",
            "laplace-of-integers",
            CONTRIB,
            "dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.5)(int(data))",
            PureDP(2 / 3),
            {"answers": {"integer": True, "bounds": [0, 100]}},
        ),
        *(_bits(*given) for given in (("0.14.2", 1.0, 0.0, ["00", "01"]), ("0.16.0", 0.5, 2.0, ["00", "01", "0000"]))),
    ]
    for version, set_by_calls in (("0.3.0", True), ("0.5.2", False), ("0.6.6", False)):
        laplace = (
            "mechanisms.Laplace().set_sensitivity(1)"
            if set_by_calls
            else "mechanisms.Laplace(epsilon=1.0, sensitivity=1)"
        )
        laplace += ".set_epsilon(1.0)" if set_by_calls else ""
        imports = "from diffprivlib import mechanisms"
        found.append(Bug(f"diffprivlib-{version}", "laplace-bits", imports, f"{laplace}.randomise(data)", one, NUMBER))
    line = "make_base_laplace(scale=1.0)(float(data))"
    found += [Bug(f"opendp-{version}", "laplace-bits", EARLY, line, one, NUMBER) for version in ("0.2.4", "0.4.0")]
    return found


def _table(*columns: tuple[str, float]) -> dict[str, Any]:
    """Columns by name and lower bound, the upper one being 1, of one record at least."""
    return {"columns": [{"name": name, "bounds": [low, 1]} for name, low in columns], "least": 1}


def _weighed() -> dict[str, Any]:
    return {"columns": [{"name": "value", "bounds": [0, 1]}, {"name": "weight", "role": "weight"}]}


def _threshold(version: str) -> Bug:
    space = (
        "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int)), dp.l01inf_distance(dp.absolute_distance(T=int))"
    )
    line = f"dp.m.make_laplace_threshold({space}, scale=1.0, threshold=5)(data)"
    names = {"symbols": ["ann", "bob"], "form": "counts"}
    return Bug(version, "threshold", CONTRIB, line, ApproxDP(1.0, ABOVE), names, "add-remove")


def _bits(version: str, f: float, flips: float, strings: Sequence[str]) -> Bug:
    """Randomised response on bits, which claims flips * log 3; strings of the lengths that its domain has."""
    space = "dp.bitvector_domain(max_weight=1), dp.discrete_distance()"
    line = f"dp.m.make_randomized_response_bitvec({space}, f={f})(bytes.fromhex(data)).hex()"
    label = "bits-never-flipped" if f == 1.0 else "bits-of-two-lengths"
    data = {"symbols": list(strings), "form": "one"}
    return Bug(f"opendp-{version}", label, CONTRIB, line, PureDP(flips * math.log(3.0)), data, "substitution")


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Hunt everything and write data, table and figure to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        Root of all random streams but the libraries' own.
    quick : bool
        Three sound mechanisms of this repository alone.

    Raises
    ------
    AuditError
        After everything is written, if anything sound is refuted.
    """
    hunted: list[Bug] = [] if quick else bugs()
    sound = list(_sound(quick))
    each = 1.0 - (1.0 - TOGETHER) / (len(hunted) + len(sound))
    rows, done = [], []
    for kind, one in [*(("bug", bug) for bug in hunted), *(("sound", entry) for entry in sound)]:
        row, results = _hunted(one, each, seed, quick)
        rows.append({"kind": kind, **row})
        done += results
        print(f"{row['name']}: {row['verdict']}", flush=True)
    write_data(out, rows, seed=seed, confidence=TOGETHER)
    write_figure(out / "hunts", certified_against_proven(done, TOGETHER))
    caption = (
        "Hunts with no pair given for known bugs of released libraries, by a schema and a one-line function, and for "
        f"what is sound; all verdicts hold together at {percent(TOGETHER)} confidence."
    )
    write_table(out, rows, COLUMNS, caption)
    if amiss := [row["name"] for row in rows if row["kind"] == "sound" and row["verdict"] == "refuted"]:
        raise AuditError(f"The table in {out} is not as expected: refuted are {', '.join(amiss)}.")
    return answer(rows)


def answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Count what was found, and what was refuted that is sound."""
    said = []
    if tried := [row for row in rows if row["kind"] == "bug"]:
        found = [row["seconds"] for row in tried if row["verdict"] == "refuted"]
        taken = f", in {statistics.median(found):.0f} seconds at the median" if found else ""
        said.append(f"Of {len(tried)} bugs {len(found)} are found{taken}.")
    sound = [row for row in rows if row["kind"] == "sound"]
    audited = [row for row in sound if row["verdict"] in ("refuted", "not refuted")]
    refuted = sum(row["verdict"] == "refuted" for row in sound)
    said.append(f"Of {len(audited)} sound mechanisms {refuted} are refuted.")
    return " ".join(said)


def _sound(quick: bool) -> Iterator[Any]:
    """Registered mechanisms, and rows of libraries, of which no fault is known."""
    entries = [entry for entry in registered().values() if entry.expected == "consistent"]
    yield from entries[:3] if quick else entries
    if not quick:
        yield from (row for library in libraries() for row in library.rows if row.expected == "consistent")


def _hunted(one: Any, confidence: float, seed: int, quick: bool) -> tuple[dict[str, Any], list[SequentialResult]]:
    """Hunt a bug, an entry or a row of a library; the table's row, and the audits."""
    row = {"name": one.name, "claim": "", "lines": one.lines if isinstance(one, Bug) else None}
    settings: dict[str, Any] = {"confidence": confidence, "seed": entry_seed(seed, one.name), "n_jobs": 1}
    try:
        if isinstance(one, Bug):
            found = hunted_from_schema(one, **settings)
        else:
            entry = one if isinstance(one, Entry) else one.entry()
            pairs = list(entry.pairs or entry.mechanism.worst_pairs())
            more = QUICK if quick else SOUND
            found = hunt(entry.mechanism, pairs, claim=entry.claim, name=entry.name, **settings, **more)
        row["claim"] = str(one.claim if isinstance(one, (Bug, Entry)) else one.stated_claim)
    except NotInstalledError as error:
        return {**row, **_facts(None), "verdict": f"not installed: {error.reason}"}, []
    except AuditError as error:
        return {**row, **_facts(None), "verdict": f"not hunted: {error}"}, []
    results = [attempt.result for attempt in found.attempts if attempt.result is not None]
    timed = {"seconds": found.seconds if isinstance(one, Bug) else None}  # the rest is the same for the same seed
    return {**row, **_facts(found), **timed}, results


def hunted_from_schema(bug: Bug, **settings: Any) -> Hunt:
    """Hunt as ``epsaudit hunt ENV file.py:run --schema schema.json --seconds 120`` does."""
    schema = read_schema({"data": bug.data, **({"adjacency": bug.adjacency} if bug.adjacency else {})})
    python = str(ENVIRONMENTS[bug.version].python())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "user.py"
        file.write_text(bug.code, encoding="utf-8")
        return hunt(
            None,
            candidates(*schema),
            claim=bug.claim,
            adjacency=schema.adjacency,
            describe=schema.description,
            make=served(f"{file}:run", python),
            name=bug.name,
            seconds=SECONDS,
            **settings,
        )


def _facts(found: Hunt | None) -> dict[str, Any]:
    """What a row says of a hunt, the pair and event of what it found first."""
    names = ("candidates", "screened", "runs")
    if found is None:
        return dict.fromkeys((*names, "audits", "certified", "pair", "event", "seconds"))
    done = [attempt.result for attempt in found.attempts if attempt.result is not None]
    findings = [one.result for one in found.findings]
    failure = next((attempt.failure for attempt in found.attempts if attempt.failure), "out of time")
    best = max((one.lower_bound for one in (*findings, *done)), default=None)
    return {
        **{name: getattr(found, name) for name in names},
        "audits": len(done),
        "certified": best,
        "pair": findings[0].pair if findings else None,
        "event": findings[0].describe_event() if findings else None,
        "verdict": "refuted" if found.refuted else "not refuted" if done else f"not audited: {failure}",
    }


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/hunts")
