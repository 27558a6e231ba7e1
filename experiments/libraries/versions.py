"""Every library version that is audited here, and the Pythons that each has been seen to run on, the best first.

What exactly is installed in each environment is in ``requirements/``. To add a version, write its file of requirements
(``pip list --format=freeze`` in an environment where it works) and a line here.
"""

from __future__ import annotations

from epsaudit.experiments.libraries.environments import Environment

ANY = ("3.11", "3.12", "3.13", "3.10")
OPENDP = ("0.2.4", "0.4.0", "0.6.2", "0.14.0", "0.14.1", "0.14.2", "0.15.0", "0.15.1", "0.16.0")

ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment("diffpriv-pure-0.1.0", ANY[:3]),
        Environment("diffprivlib-0.3.0", ("3.10", "3.9", "3.8"), from_source=("diffprivlib",)),
        Environment("diffprivlib-0.5.2", ("3.9", "3.8"), from_source=("crlibm",)),
        Environment("diffprivlib-0.6.6", ("3.11", "3.12")),
        Environment("dpsprt-1.2.0", ANY[:3]),
        Environment("eeprivacy-0.0.5", ANY[:3]),
        Environment("inf-tda-0.1", ("3.11", "3.12")),
        Environment("opacus-1.6.0", ("3.11",)),
        *(Environment(f"opendp-{version}", ANY) for version in OPENDP),
        Environment("pipeline-dp-0.3.1", ("3.11", "3.12", "3.13")),
        Environment("smartnoise-synth-1.0.5", ("3.11", "3.12")),
        Environment("smartnoise-synth-1.0.6", ("3.11", "3.12")),
        Environment("smartnoise-synth-1.0.8", ("3.11", "3.12")),
        Environment("tmlt-core-0.20.0", ("3.11",), from_source=("pyspark",)),
        Environment("trasgodp-2.1.0", ("3.11", "3.12")),
    )
}
