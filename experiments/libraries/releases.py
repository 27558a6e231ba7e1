"""Synthetic tables and models that released libraries make from a train part, each in an environment of its own.

A program of a few lines reads ``train.csv`` in its working folder and writes ``release.csv``. Its arguments are the
method, epsilon, delta and a seed; an epsilon of 0 means that the method has no claim. The program of a model also reads
``records.csv``, and its release holds one row for each of these records: the model's probabilities of all classes.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from epsaudit import ApproxDP, Claim, PureDP
from epsaudit.errors import AuditError, cause_of
from epsaudit.experiments.libraries.environments import Environment

REQUIREMENTS = Path(__file__).parent / "synthesizers"
SECONDS = 900.0
"""Maximum time in seconds of one program."""
DELTA = 1e-5
ARGUMENTS = """
import sys
method, epsilon, delta, seed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
"""
"""The first lines of every program."""
TABLE = """
import pandas as pd
train = pd.read_csv("train.csv")
"""
"""The next lines of the program of a synthetic table."""
DATA_SYNTHESIZER = (
    TABLE
    + """
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
describer = DataDescriber(category_threshold=20)
describer.describe_dataset_in_correlated_attribute_mode("train.csv", epsilon=epsilon, k=2, seed=seed)
describer.save_dataset_description_to_file("description.json")
generator = DataGenerator()
generator.generate_dataset_in_correlated_attribute_mode(len(train), "description.json", seed=seed)
generator.save_synthetic_data("release.csv")
"""
)
DPMM = (
    TABLE
    + """
import dpmm.pipelines
more = {"delta": delta} if delta else {}
pipeline = getattr(dpmm.pipelines, method + "Pipeline")(epsilon=epsilon, n_jobs=1, **more)
pipeline.fit(train.astype(str), random_state=seed)
pipeline.generate(n_records=len(train), random_state=seed).to_csv("release.csv", index=False)
"""
)
SDV = (
    TABLE
    + """
import numpy as np
import torch
import sdv.single_table
from sdv.metadata import Metadata
np.random.seed(seed)
torch.manual_seed(seed)
torch.set_num_threads(1)
more = {"epochs": 30} if method == "CTGAN" else {}
tables = {"records": train}
synthesizer = getattr(sdv.single_table, method + "Synthesizer")(Metadata.detect_from_dataframes(tables), **more)
synthesizer.fit(tables)
made = synthesizer.sample(len(train))
(made["records"] if isinstance(made, dict) else made).to_csv("release.csv", index=False)
"""
)
SYNTHCITY = (
    TABLE
    + """
import torch
from synthcity.plugins import Plugins
from synthcity.plugins.core.dataloader import GenericDataLoader
torch.set_num_threads(1)
more = {"epsilon": epsilon} if epsilon else {}
plugin = Plugins(categories=["generic", "privacy"]).get(method, random_state=seed, **more)
plugin.fit(GenericDataLoader(train, random_state=seed))
plugin.generate(count=len(train)).dataframe().to_csv("release.csv", index=False)
"""
)
SMARTNOISE = (
    TABLE
    + """
import numpy as np
from snsynth import Synthesizer
words = train.astype(str)
np.random.seed(seed)  # the noise of OpenDP has no seed
more = {"rounds": 16} if method == "aim" else {}  # 16 for each column, the default, take a quarter of an hour
synthesizer = Synthesizer.create(method, epsilon=epsilon, delta=delta, **more)
synthesizer.fit(words, preprocessor_eps=0.0, categorical_columns=list(words.columns))
synthesizer.sample(len(words)).to_csv("release.csv", index=False)
"""
)
OPACUS = """
import numpy as np
import torch
from torch import nn
torch.manual_seed(seed)
torch.set_num_threads(1)

def read(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1)  # the last column is the target
    return torch.tensor(table[:, :-1] / 16.0, dtype=torch.float32), torch.tensor(table[:, -1], dtype=torch.int64)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*read("train.csv")), batch_size=64, shuffle=True)
epochs = 60
if epsilon:
    from opacus import PrivacyEngine
    model, optimizer, loader = PrivacyEngine(accountant="rdp").make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=loader, epochs=epochs, target_epsilon=epsilon,
        target_delta=delta, max_grad_norm=1.0,
    )
loss = nn.CrossEntropyLoss()
for _ in range(epochs):
    for features, targets in loader:
        optimizer.zero_grad()
        loss(model(features), targets).backward()
        optimizer.step()
with torch.no_grad():
    made = torch.softmax(model(read("records.csv")[0]).double(), dim=1).numpy()
np.savetxt("release.csv", made, delimiter=",", header=",".join(map(str, range(10))), comments="")
"""


@dataclass(frozen=True)
class LibraryRelease:
    """Something that a method of a library computes from a train part.

    Attributes
    ----------
    environment : Environment
        The library version.
    method : str
        Name of the method, as the program spells it.
    program : str
        The program, without its first lines `ARGUMENTS`.
    epsilon, delta : float
        The claim, for adding or removing a record. An epsilon of 0 means that the method claims nothing.
    is_model : bool
        Whether the release is a model, in place of a table.
    """

    environment: Environment
    method: str
    program: str
    epsilon: float = 0.0
    delta: float = 0.0
    is_model: bool = False

    @property
    def claim(self) -> Claim | None:
        """The claim, for adding or removing a record, or None."""
        if self.epsilon == 0.0:
            return None
        return ApproxDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)

    def make(self, train: pd.DataFrame, records: pd.DataFrame, seed: int) -> pd.DataFrame:
        """Run the program, and return the table that it wrote.

        Parameters
        ----------
        train : DataFrame
            The train part.
        records : DataFrame
            All records. Only the program of a model reads them.
        seed : int
            Seed of the program.

        Raises
        ------
        AuditError
            If the program takes too long or writes no table; the message has the reason that the program printed.
        NotInstalledError
            If the library cannot be installed.
        """
        with tempfile.TemporaryDirectory() as folder:
            train.to_csv(Path(folder) / "train.csv", index=False)
            if self.is_model:
                records.to_csv(Path(folder) / "records.csv", index=False)
            arguments = [self.method, str(self.epsilon), str(self.delta), str(seed)]
            words = [str(self.environment.python()), "-c", ARGUMENTS + self.program, *arguments]
            try:
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise AuditError(f"{self.method} took more than {SECONDS:g} seconds.") from None
            made = Path(folder) / "release.csv"
            if not made.exists():
                raise AuditError(f"{self.method} made no table: {cause_of(done.stderr)}")
            return pd.read_csv(made)


def library_releases() -> Iterator[LibraryRelease]:
    """Yield every method at every epsilon, the slowest methods first."""
    smartnoise = _environment("smartnoise-synth-1.0.8", "antlr4-python3-runtime")
    for epsilon in (10.0, 1.0):
        yield LibraryRelease(smartnoise, "aim", SMARTNOISE, epsilon, DELTA)
        yield LibraryRelease(smartnoise, "mst", SMARTNOISE, epsilon, DELTA)
    sdv = _environment("sdv-2.0.0")
    yield LibraryRelease(sdv, "CTGAN", SDV)
    yield LibraryRelease(sdv, "GaussianCopula", SDV)
    synthcity = _environment("synthcity-0.2.12", "nflows", "arfpy", "pykeops", "keopscore", "feather-format")
    yield LibraryRelease(synthcity, "arf", SYNTHCITY)
    yield LibraryRelease(synthcity, "bayesian_network", SYNTHCITY)
    for epsilon in (1.0, 10.0):
        yield LibraryRelease(synthcity, "privbayes", SYNTHCITY, epsilon)
        yield LibraryRelease(_environment("datasynthesizer-0.1.13"), "PrivBayes", DATA_SYNTHESIZER, epsilon)
        yield LibraryRelease(_environment("dpmm-0.1.9"), "PrivBayes", DPMM, epsilon)
        yield LibraryRelease(_environment("dpmm-0.1.9"), "MST", DPMM, epsilon, DELTA)
    opacus = Environment("opacus-1.6.0", ("3.11",))
    yield LibraryRelease(opacus, "network", OPACUS, is_model=True)
    yield LibraryRelease(opacus, "network", OPACUS, 4.0, DELTA, is_model=True)


def _environment(name: str, *from_source: str) -> Environment:
    return Environment(name, ("3.11",), from_source, REQUIREMENTS / f"{name}.txt")
