"""A mechanism made of a program in any language; the protocol is in docs/how-to/other-languages.md."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Adjacency, DatasetPair, Pairs, adjacency_of
from epsaudit.data.pairs import list_pairs
from epsaudit.data.records import shorten
from epsaudit.errors import AuditError, public, seconds_of, with_article
from epsaudit.outputs.arrays import Outputs, pack_frozen, values_of
from epsaudit.running.child import Child, Program
from epsaudit.running.child_pool import CHILDREN
from epsaudit.running.protocols import Mechanism
from epsaudit.serve import encode_float

SEEDS = 1 << 53
"""[formula] Seeds are below this: languages whose numbers are doubles read them exactly."""


@public
def command(
    words: Sequence[str] | str,
    *,
    claim: Claim | None = None,
    adjacency: Adjacency | None = None,
    pairs: Pairs = (),
    name: str | None = None,
    timeout: float = 300.0,
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
) -> CommandMechanism:
    """Make a mechanism of a program that speaks the protocol of docs/how-to/other-languages.md.

    Parameters
    ----------
    words : sequence of str, or str
        The program and its arguments. A string is split as a POSIX shell splits it, but no shell runs it. The program
        is started by an audit, not here.
    claim, adjacency, pairs, name : optional
        As for `epsaudit.black_box`. Datasets are written as JSON, where tuples, sets and arrays are lists.
    timeout : float
        Seconds of silence, above 0, after which the program is given up.
    folder : path, optional
        The folder to run it in; by default the current folder.
    fresh : bool
        Whether the program is started anew for every run, which takes tens of milliseconds, so that it keeps nothing.

    Raises
    ------
    AuditError
        If there are no words, or if a quotation is not closed.

    Examples
    --------
    >>> command("Rscript --vanilla count.R 3", timeout=60.0).name
    'count.R'
    """
    try:
        parts = tuple(shlex.split(words) if isinstance(words, str) else map(str, words))
    except ValueError as error:
        raise AuditError(
            f"The command {words!r} cannot be split into words ({error}); check its quotation marks."
        ) from None
    if not parts:
        raise AuditError("The command is empty; give a program and its arguments.")
    timeout = seconds_of(timeout, "timeout")
    files = [word for word in parts[1:] if not word.startswith("-") and "." in Path(word).name and "\n" not in word]
    program = Program(parts, None if folder is None else os.fspath(folder), float(timeout))
    relation = adjacency_of(adjacency)
    name, law = name or Path([*files, parts[0]][0]).name, _RestartedProgram if fresh else CommandDistribution
    return CommandMechanism(program, name, claim, relation, tuple(list_pairs(pairs, relation)), law=law, fresh=fresh)


@dataclass(frozen=True)
class CommandDistribution:
    """The distribution (law) of a program's outputs on one dataset.

    Attributes
    ----------
    program : Program
        The program.
    dataset : str
        The dataset as JSON text.
    child : Child, optional
        The process to ask; by default an idle one of this program.
    random_call_order : bool
        Whether the two laws of a pair are called in random order, because outputs of one request may depend on one
        another.
    """

    program: Program
    dataset: str
    child: Child | None = field(default=None, compare=False, repr=False)
    random_call_order: bool = True

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        """Request ``size`` outputs with a seed drawn from ``rng``."""
        seed = int(rng.integers(SEEDS))
        with nullcontext(self.child) if self.child is not None else CHILDREN.borrow(self.program) as child:
            return child.outputs(self.dataset, size, seed)


@dataclass(frozen=True)
class CommandMechanism:
    """A mechanism that runs a program; `command` builds it.

    Attributes
    ----------
    program : Program
        The program.
    name, claim, adjacency, pairs
        As for `epsaudit.black_box`.
    trusted : bool
        Whether outputs are assumed to be independent. This is allowed only in tests that certify nothing.
    law : type
        The class of the output distributions.
    fresh : bool
        Whether the program is started anew for every run.
    restarts : bool
        Whether a refutation is checked by comparison with newly started processes.
    """

    program: Program
    name: str
    claim: Claim | None
    adjacency: Adjacency | None
    pairs: tuple[DatasetPair, ...]
    trusted: bool = field(default=False, repr=False)
    law: type[CommandDistribution] = field(default=CommandDistribution, repr=False)
    fresh: bool = field(default=False, repr=False)
    restarts: bool = field(default=True, repr=False)
    releases_the_interpreter = True
    wants_many_calls = True

    @property
    def reproducible(self) -> bool:
        """Whether the program promises that its outputs depend only on the seeds that it is sent."""
        if self.trusted:
            return False
        with CHILDREN.borrow(self.program) as child:
            return child.seeded

    @property
    def fingerprint(self) -> dict[str, str]:
        """The facts that identify the program in a checkpoint: command line, versions, and digests of its files."""
        found = {"the program": " ".join(self.program.words)}
        with CHILDREN.borrow(self.program) as child:
            versions: Any = child.versions or {}
            for name, version in versions.items():
                found[f"the program's version of {name}"] = str(version)
            for path in child.files:
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                found[f"the code of {os.path.relpath(path, child.folder)}"] = content[:16]
        return found

    def __call__(self, dataset: Any) -> CommandDistribution:
        """Return the output distribution on a dataset, which is written as JSON.

        The program is started if no process of it is idle, to check that it runs and sends its greeting.
        """
        text = json.dumps(dataset_to_json(dataset))
        with CHILDREN.borrow(self.program):
            return self.law(self.program, text, random_call_order=self.law is CommandDistribution and not self.trusted)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Return the pairs of datasets that were given when the program was wrapped."""
        return self.pairs


@contextmanager
def in_a_new_process(*laws: CommandDistribution) -> Iterator[list[CommandDistribution]]:
    """Start a new process of a program, and yield copies of the laws that send their requests to this process.

    All laws must be those of one program. The process is ended after the block.
    """
    with contextlib.closing(Child(laws[0].program)) as child:
        yield [dataclasses.replace(law, child=child) for law in laws]


def assumed_independent(mechanism: Mechanism) -> Mechanism:
    """Return a program's mechanism under the assumption that its outputs are independent.

    The assumption is only for tests that certify nothing. Mechanisms that are not programs, and programs that are
    started anew for every run, are returned unchanged.
    """
    if not isinstance(mechanism, CommandMechanism) or mechanism.fresh:
        return mechanism
    return dataclasses.replace(mechanism, trusted=True, law=CommandDistribution)


def alternating(mechanism: Mechanism) -> Mechanism:
    """Return a program's mechanism such that requests alternate between the two datasets of a pair.

    This is possible if the program promises to make a separate call for every run. Dependence between runs is then
    found after 512 runs instead of 4,096. Other mechanisms are returned unchanged.
    """
    if not isinstance(mechanism, CommandMechanism) or mechanism.fresh:
        return mechanism
    with CHILDREN.borrow(mechanism.program) as child:
        return dataclasses.replace(mechanism, law=_Alternating) if child.single else mechanism


class _RestartedProgram(CommandDistribution):
    """The output distribution of a program that is started anew for every run."""

    def sample(self, size: int, rng: np.random.Generator) -> Outputs:
        def one(seed: int) -> Any:
            with contextlib.closing(Child(self.program)) as child:
                return values_of(child.outputs(self.dataset, 1, seed))[0]

        seeds = [int(seed) for seed in rng.integers(SEEDS, size=size)]
        contexts = [copy_context() for _ in seeds]  # so that the processes end with the audit
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return pack_frozen(list(pool.map(lambda context, seed: context.run(one, seed), contexts, seeds)))


class _Alternating(CommandDistribution):
    """The output distribution of a program whose requests alternate between the two datasets of a pair.

    The requests follow the order of the coins that choose the dataset of every run. The program must make a separate
    call for every run.
    """

    def sample_interleaved(
        self, other: _Alternating, side: NDArray[np.int8], rng: np.random.Generator
    ) -> tuple[list[Any], list[Any]]:
        """Draw an output for each coin; one request covers each group of equal consecutive coins.

        See `OutputDistribution` for the arguments and the result.
        """
        values: tuple[list[Any], list[Any]] = ([], [])
        for which, coins in itertools.groupby(side.tolist()):
            values[which].extend(values_of((self, other)[which].sample(len(list(coins)), rng)))
        return values


def dataset_to_json(dataset: Any) -> Any:
    """Return a dataset as a JSON value.

    Arrays, tuples and sets become lists, and numbers that are not finite become objects. Raises `AuditError` if the
    dataset holds anything else that JSON cannot write.

    >>> dataset_to_json((1.0, float("inf")))
    [1.0, {'float': 'inf'}]
    """
    if isinstance(dataset, (np.generic, np.ndarray)):
        dataset = dataset.tolist()
    if isinstance(dataset, float):
        return encode_float(dataset)
    if dataset is None or isinstance(dataset, (str, bool, int)):
        return dataset
    if isinstance(dataset, (list, tuple, Set)):
        return [dataset_to_json(part) for part in (sorted(dataset, key=repr) if isinstance(dataset, Set) else dataset)]
    if isinstance(dataset, Mapping) and all(isinstance(key, str) for key in dataset):
        return {key: dataset_to_json(part) for key, part in dataset.items()}
    raise AuditError(
        f"The dataset holds {shorten(dataset)}, {with_article(type(dataset).__name__)}, which JSON cannot write; a "
        "command takes numbers, strings, None, lists, tuples, sets, arrays, and mappings whose keys are strings."
    )


def with_tuples(data: Any) -> Any:
    """Return a JSON value with its arrays as tuples, so that it prints and compares as datasets do."""
    return tuple(map(with_tuples, data)) if isinstance(data, list) else data
