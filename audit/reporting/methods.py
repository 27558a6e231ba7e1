r"""The methods paragraphs of a paper in LaTeX, with the BibTeX entries that they ``\cite``.

Nothing is said that the results do not show, so that other results give other words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from epsaudit.audits.one_run import OneRunResult
from epsaudit.audits.sequential import SequentialResult
from epsaudit.certificates import Box, MembershipGame
from epsaudit.errors import AuditError
from epsaudit.reporting.tables import kind_of
from epsaudit.results.pairs import AuditResult
from epsaudit.results.result import Result
from epsaudit.text import SYMBOLS, latex, lower, percent
from epsaudit.witnesses.features import Additive, Tree

DEFINITIONS = {
    "PureDP": "dwork2006calibrating",
    "ApproxDP": "dwork2006our",
    "ZCDP": "bun2016concentrated",
    "RenyiDP": "mironov2017renyi",
    "GaussianDP": "dong2022gaussian",
    "ApproxZCDP": "bun2016concentrated",
    "TradeOff": "dong2022gaussian",
}
SEVERAL = "several versions"
OWN = r"""@software{epsaudit,
  author = {{The epsaudit founders}},
  title = {epsaudit: Empirical Privacy Auditing with Certified Lower Bounds},
  version = {%s},
  year = {2026}
}"""


def methods(results: Sequence[Result], family_confidence: float) -> str:
    """Return the paragraphs and the BibTeX entries that they cite, in this order; `AuditError` without results."""
    if not results:
        raise AuditError("There are no results to describe.")
    fixed = [result for result in results if isinstance(result, AuditResult)]
    paragraphs = _fixed_size(fixed, family_confidence) if fixed else []
    others = [result for result in results if isinstance(result, SequentialResult | OneRunResult)]
    for kind in dict.fromkeys(map(type, others)):
        paragraphs.append(_others([result for result in others if isinstance(result, kind)]))
    cited = [key for found in re.findall(r"\\cite\{([^}]*)\}", "\n\n".join(paragraphs)) for key in found.split(",")]
    text = files("epsaudit.reporting").joinpath("references.bib").read_text(encoding="utf-8")
    known = {entry.partition("{")[2].partition(",")[0]: entry.strip() for entry in re.split(r"\n(?=@)", text)}
    known["epsaudit"] = OWN % version("epsaudit")
    return "\n\n".join([*paragraphs, *(known[key] for key in dict.fromkeys(cited))]) + "\n"


def _others(results: Sequence[SequentialResult | OneRunResult]) -> str:
    """Describe sequential audits, or one-run audits, in one paragraph."""
    names = _names(results[:3]) + (", and others" if len(results) > 3 else "")
    claims = "the claim" if len(results) == 1 else f"{len(results)} claims"
    audited = f"We audited {claims} of {names} ({_claims(results).removeprefix('1 of ')}) with {_tool(results)}"
    if isinstance(results[0], SequentialResult):
        how = (
            f", sequentially: {_span([result.spent for result in results])} runs were bet on in rounds, by events "
            "learnt from the rounds before, and the wealth of the bets bounds the privacy loss at every moment "
            r"at which one may stop \cite{ramdas2023game}."
        )
    else:
        sizes = _span([result.canaries for result in results if isinstance(result, OneRunResult)])
        how = (
            rf" in one run each \cite{{steinke2023privacy}}: {sizes} canaries were in by independent fair coins, and "
            "the bound is the largest parameter that rejects so many right guesses about them."
        )
    return " ".join([audited + how, _confidence(results, 0.0), _outcome(results), _reproducing(results)])


def _fixed_size(results: Sequence[AuditResult], family: float) -> list[str]:
    """Say in two paragraphs what was run, and what was certified."""
    many = len(results) > 1
    if many:
        names = "" if len(results) > 3 else f" ({_names(results)})"
        subject = f"{len(results)} claims of differential privacy{names} with {_tool(results)}: {_claims(results)}"
    else:
        claim = f"{latex(str(results[0].claim))} ({_claims(results).removeprefix('1 of ')})"
        subject = f"the claim that {_names(results)} is {claim} with {_tool(results)}"
    sentences = [
        f"We audited {subject}.",
        f"{'Each' if many else 'The'} mechanism was run {_span([r.trials for r in results])} times on a pair of "
        f"neighbouring datasets; {_span([r.training_runs for r in results])} of these runs chose the pair, the event "
        "and the kind of certificate by the bound they were predicted to certify, and the other "
        rf"{_span([r.runs for r in results])}, which were fresh, certified that one choice \cite{{ding2018detecting}}.",
        "Each fresh run used one of the two datasets by a fair coin, and only counts were kept.",
    ]
    events = [(result.witness.guess_x, result.witness.guess_x_prime) for result in results]
    learned = sum(
        any(isinstance(getattr(event, "feature", None), (Additive, Tree)) for event in both) for both in events
    )
    if learned:
        which = f"In {learned} of the audits the event is" if many else "The event is"
        sentences.append(
            rf"{which} a threshold on a classifier learnt from the choosing runs \cite{{bichsel2021dpsniper}}."
        )
    if any(result.families == "all" for result in results):
        sentences.append("Events included those on the last bits of floating-point outputs.")
    ran = " ".join([*sentences, _reproducing(results)])

    games = [result for result in results if isinstance(result.certificate, MembershipGame)]
    boxes = [result for result in results if isinstance(result.certificate, Box)]
    both = bool(games and boxes)
    sentences = []
    if games:
        sentences.append(
            f"{f'In {len(games)} audits the' if both else 'The'} lower bound follows from a membership game "
            r"\cite{wasserman2010statistical,kairouz2015composition}: an output in the event is a guess which dataset "
            "was used, under the claim a guess is correct with at most a known probability, and the bound is the "
            "largest parameter that a one-sided Clopper--Pearson limit on that probability rejects "
            r"\cite{clopper1934use}."
        )
        if any(result.claim.claimed_point is not None and result.point[1] > 0.0 for result in games):
            shares = {result.certificate.share for result in games if isinstance(result.certificate, MembershipGame)}
            spent = " or ".join(latex(f"{100 * share:g}%") for share in sorted(shares))
            sentences.append(
                rf"Where $\delta > 0$, {spent} of the error probability is spent on a lower limit on the probability "
                "of guessing at all."
            )
        if curves := [result for result in games if result.claim.claimed_point is None]:
            sentences.append(
                "Claims about a whole curve are refuted at one point of their privacy profile, which the choosing runs "
                f"fixed{_cite_if(curves, 'balle2018improving', 'GaussianDP')}."
            )
    if boxes:
        which = f"the other {len(boxes)}" if both else "all" if len(results) > 1 else "this audit"
        sentences.append(
            f"In {which}, two one-sided Clopper--Pearson limits on the probability of the event under each dataset "
            r"share the error \cite{clopper1934use,jagielski2020auditing}, and the bound is the least parameter that "
            f"allows both{_cite_if(boxes, 'balle2020hypothesis', 'ZCDP', 'RenyiDP')}."
        )
    return [ran, " ".join([*sentences, _confidence(results, family), _outcome(results)])]


def _outcome(results: Sequence[Result]) -> str:
    violated = sum(result.violates_claim for result in results)
    limited = sum(result.limits is not None for result in results)
    outcome = f"{violated} of the {len(results)} claims were refuted"
    if len(results) == 1:
        outcome = f"The claim was {'refuted' if violated else 'not refuted'}"
    few = f" {limited} could not have been refuted with so few runs, whatever the mechanism." if limited else ""
    return f"{outcome}; that a claim is not refuted is no proof of it.{few}"


def _claims(results: Sequence[Result]) -> str:
    kinds = Counter((kind_of(result), type(result.claim).__name__) for result in results)
    said = [
        f"{number} of {latex(kind)}" + (rf"~\cite{{{DEFINITIONS[name]}}}" if name in DEFINITIONS else "")
        for (kind, name), number in kinds.most_common()
    ]
    return ", ".join(said[:-1]) + (" and " if len(said) > 1 else "") + said[-1]


def _confidence(results: Sequence[Result], family: float) -> str:
    confidences = sorted({result.confidence for result in results})
    each = latex(" to ".join(map(percent, confidences[:: max(len(confidences) - 1, 1)])))
    if len(results) == 1:
        bound = f"{latex(SYMBOLS[results[0].claim.symbol])} $\\ge$ {lower(results[0].lower_bound)}"
        return f"It certifies {bound} with {each} confidence."
    own = f"Each bound holds with {each} confidence on its own"
    if family <= 0.0:
        return f"{own}; no statement is made about all of them together."
    together = rf"{latex(percent(family))} (Bonferroni~\cite{{dunn1961multiple}})"
    return f"{own}, and all {len(results)} together with {together}."


def _reproducing(results: Sequence[Result]) -> str:
    libraries = ", ".join(
        f"{label}~{latex(_only(results, name))}"
        for name, label in (("python", "Python"), ("numpy", "NumPy"), ("scipy", "SciPy"))
        if _only(results, name) != "unknown"
    )
    tail = f" ({under})" if (under := "; ".join(filter(None, [libraries, _commit(results)]))) else ""
    seeded = sum(result.reproducible for result in results)
    if seeded == len(results):
        seeds = f"seed {results[0].seed}" if len(results) == 1 else "the seeds in the result file"
        return f"Everything is determined by {seeds}{tail}."
    if len(results) > 1:
        return (
            f"{seeded} of the audits are determined by the seeds in the result file; the mechanisms of the other "
            f"{len(results) - seeded} draw their own randomness{tail}."
        )
    if getattr(results[0], "given", False):
        return f"Coins and scores are those of a run that was made elsewhere{tail}."
    return f"The mechanism draws its own randomness, so that no seed reproduces the counts{tail}."


def _commit(results: Sequence[Result]) -> str:
    """Name the commit, and in words what differed from it: a reader of the paper does not have that."""
    commit = _only(results, "commit")
    if commit == "unknown":
        return ""
    said = "several commits" if commit == SEVERAL else f"commit {_code(commit.removesuffix('-dirty'))}"
    if not any(result.provenance.get("commit", "").endswith("-dirty") for result in results):
        return said
    changed = _only(results, "modified").split(", ")
    if changed[0] in ("unknown", SEVERAL):
        return f"{said}, with changes beyond the commit that are not recorded"
    more = f" and {len(changed) - 3} more files" if len(changed) > 3 else ""
    return f"{said}, with changes to {', '.join(map(_code, changed[:3]))}{more}"


def _names(results: Sequence[Result]) -> str:
    return ", ".join(_code(result.mechanism) for result in results)


def _code(text: str) -> str:
    return rf"\texttt{{{latex(text)}}}"


def _tool(results: Sequence[Result]) -> str:
    return rf"epsaudit~{latex(_only(results, 'epsaudit'))}~\cite{{epsaudit}}"


def _only(results: Sequence[Result], name: str) -> str:
    values = {result.provenance.get(name, "unknown") for result in results}
    return values.pop() if len(values) == 1 else SEVERAL


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _cite_if(results: Sequence[Result], key: str, *kinds: str) -> str:
    return rf" \cite{{{key}}}" if any(type(result.claim).__name__ in kinds for result in results) else ""
