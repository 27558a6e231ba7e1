"""Refuted events, kept from one run of a test to the next and tried first: the failure database of ``privacy_audit``.

`keep` writes the event that refuted a claim, and how it was bet on, as JSON; `replayed` counts it in fresh runs, which
learn nothing, so that a leak that is still there fails sooner. Their stream is seeded by the entry, too: no run
that chose the event has drawn from it (docs/explanation/theory.md#an-event-that-is-tried-first).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epsaudit.adapters.functions import Mechanism
from epsaudit.audits.question import Question, begun
from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.sequential.betting import Accounts, Bet
from epsaudit.audits.sequential.drawing import STRATEGIES, Seen, counts_of, parts, play, tallies_of
from epsaudit.audits.sequential.record import Round, StrategyRecord
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.identity import digest
from epsaudit.engine.provenance import write_whole
from epsaudit.engine.sampling import Progress, ProgressCallback
from epsaudit.errors import AuditError
from epsaudit.witnesses import witness_from_dict

VERSION = 1
"""Of the file of an entry; others are ignored."""
SHARE = 0.1
"""Of a check's false-alarm probability, the replay's; the check keeps the others. A tenth costs a replay log 10 of the
log-wealth that refutes, and the check log(1 / 0.9) = 0.1, so that it answers nearly as it would alone."""
LONGER = 2
"""A replay takes at most so many times the runs that refuted the claim before. Five replays of a count with a fifth too
little noise all refuted it again, in 0.5 to 1.75 times those runs."""


@dataclass(frozen=True)
class Kept:
    """A refuted event: by which test, of which claim and pair, the bet, and after how many runs.

    ``datasets`` is a digest of the pair's, which are not kept.
    """

    test: str
    claim: str
    pair: str
    datasets: str
    bet: Bet
    runs: int

    @staticmethod
    def of_datasets(pair: DatasetPair) -> str:
        """The digest of a pair's datasets."""
        return digest((pair.x, pair.x_prime))

    @classmethod
    def of(cls, test: str, result: SequentialResult, pair: DatasetPair) -> Kept:
        """Keep what refuted the claim: the last events of the strategy that won more."""
        last = result.rounds[-1].strategies[result.best]
        bet = Bet(last.witness, last.tangent, last.correct, last.wrong, last.past)
        return cls(test, repr(result.claim), str(pair), cls.of_datasets(pair), bet, result.runs)

    @classmethod
    def read(cls, text: str) -> Kept:
        """Read an entry; raises `AuditError` for what is none."""
        try:
            data = json.loads(text)
            if (data.pop("epsaudit"), data.pop("version")) != ("refuted event", VERSION):
                raise ValueError
            raw = data.pop("bet")
            tangent = None if raw["tangent"] is None else float(raw["tangent"])
            rates = float(raw["correct"]), float(raw["wrong"])
            bet = Bet(witness_from_dict(raw["witness"]), tangent, *rates, int(raw["past"]))
            found = cls(**{**data, "runs": int(data["runs"])}, bet=bet)
            if not (found.runs > 0 and bet.past >= 0 and all(0.0 <= rate <= 1.0 for rate in rates)):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, AuditError) as error:
            raise AuditError(f"This is not a refuted event of version {VERSION} ({error}).") from None
        return found

    def text(self) -> str:
        """Write the entry as JSON, events in words among it."""
        bet = {**vars(self.bet), "witness": self.bet.witness.to_dict()}
        return json.dumps({"epsaudit": "refuted event", "version": VERSION, **vars(self), "bet": bet}, indent=1) + "\n"

    def why_stale(self, claim: Claim, pairs: Sequence[DatasetPair]) -> str:
        """Say why this says nothing of a check, in a few words; '' where it does."""
        if self.claim != repr(claim):
            return f"another claim was refuted, {self.claim}"
        return "" if any(map(self.is_of, pairs)) else f"it is of other datasets, {self.pair}"

    def is_of(self, pair: DatasetPair) -> bool:
        """Whether it was refuted on this pair of datasets."""
        return str(pair) == self.pair and self.of_datasets(pair) == self.datasets


def _chunk_sizes(trials: int) -> Iterator[int]:
    """Yield 16, or an eighth of the runs so far: what is drawn beyond the run that refutes is little."""
    done = 0
    while done < trials:
        yield (size := min(max(16, done // 8), trials - done))
        done += size


class Failures:
    """The entries in a folder, a file for each check; a session sees what was there when it first asked.

    What is done twice in a session (by hypothesis, or a plugin that runs tests again) is then done the same way twice.
    Without a folder, or in one that cannot be written to, nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._seen: dict[str, tuple[Kept | None, str]] = {}

    def of(self, check: str) -> tuple[Kept | None, str]:
        """Return the entry of a check, or None and, where one cannot be read, a sentence."""
        if check not in self._seen:
            self._seen[check] = self._read(check)
        return self._seen[check]

    def keep(self, check: str, kept: Kept) -> None:
        """Write the entry of a check."""
        self.of(check)  # as it was
        with suppress(AuditError, FileNotFoundError):  # a test does not fail for this
            write_whole(self._file(check), kept.text())

    def forget(self, check: str) -> None:
        """Remove the entry of a check."""
        self.of(check)
        with suppress(OSError):
            self._file(check).unlink()

    def _file(self, check: str) -> Path:
        if self.folder is None:
            raise FileNotFoundError
        return self.folder / f"{digest(check)}.json"

    def _read(self, check: str) -> tuple[Kept | None, str]:
        try:
            return Kept.read(self._file(check).read_text(encoding="utf-8")), ""
        except FileNotFoundError:
            return None, ""
        except (OSError, UnicodeDecodeError, AuditError):
            return None, "the event kept of an earlier failure was ignored, as it cannot be read"


def replayed(
    kept: Kept,
    mechanism: Mechanism,
    claim: Claim,
    pair: DatasetPair,
    *,
    trials: int,
    seconds: float,
    confidence: float,
    seed: int,
    progress: ProgressCallback | None = None,
) -> tuple[SequentialResult | None, int]:
    """Bet on a kept event in fresh runs: the result if it refutes the claim again, and the runs that were made.

    Nothing is learnt, and nothing but the wealth is tested: the audit that found the event has looked for runs that
    depend on one another. ``seed`` must not be one that the event was chosen with.

    Examples
    --------
    >>> from epsaudit import PureDP, audit_sequentially, vectorized
    >>> pair, claim = DatasetPair(0, 1), PureDP(1.0)
    >>> leak = vectorized(lambda data, size, rng: data + rng.laplace(scale=0.6, size=size), name="noisy", claim=claim)
    >>> found = audit_sequentially(leak, [pair], confidence=1 - 1e-6, seed=1)
    >>> again, runs = replayed(Kept.of("", found, pair), leak, claim, pair, trials=9_999, seconds=9.0,
    ...                        confidence=1 - 1e-7, seed=2)
    >>> again.violates_claim, again.witness == found.witness, runs <= LONGER * found.runs
    (True, True, True)
    """
    started, trials = time.perf_counter(), min(trials, LONGER * kept.runs)
    question = Question.of(mechanism, [pair], claim, None, 0.0, None, max(trials, 100), confidence, "auto")
    run, accounts = begun(question, seed, 1, Section()), Accounts(claim, confidence, STRATEGIES)
    bets = (kept.bet,) * STRATEGIES
    accounts.open(bets)
    sizes = list(_chunk_sizes(trials))
    chunks = parts(0, 0, sizes, 0, [False] * len(sizes))
    seen: Seen = np.zeros((STRATEGIES, 6), dtype=np.int64)
    looks: list[tuple[int, int, int]] = []
    for drawn in play(run.sides[0], [bet.witness for bet in bets], seed, chunks, run.workers, Section(), True):
        so_far = seen + drawn.seen
        crossed = np.flatnonzero(accounts.against_claim(tallies_of(so_far)) >= accounts.needed)
        seen = so_far[crossed[0] if len(crossed) else -1]
        counts = counts_of(seen[0], kept.bet.witness)
        looks.append((int(counts.runs), int(counts.correct), int(counts.wrong)))
        if len(crossed):
            strategy = StrategyRecord(**vars(kept.bet), counts=counts, looks=tuple(looks))
            rounds = (Round(str(pair), 0, (strategy,) * STRATEGIES),)
            return SequentialResult(**run.shared(0, ()), stopped="refuted", rounds=rounds), looks[-1][0]
        if progress is not None:
            progress(Progress("certification", looks[-1][0], trials))
        if time.perf_counter() - started > seconds:
            break
    return None, looks[-1][0]
