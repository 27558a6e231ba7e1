"""``epsaudit verify``: recompute stored bounds from their counts, or run the audits again from their seeds.

It reads a result file, prints one line a result and sets the exit status: 1 if anything is not as stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from epsaudit import results, verify
from epsaudit.commands import AS_EXPECTED, SURPRISED, say_json, sayer
from epsaudit.commands.report import matching
from epsaudit.registry import Entry, chosen, entry_of, registered
from epsaudit.reporting.escaping import visible
from epsaudit.reporting.numbers import lower, percent


def verify_file(options: SimpleNamespace) -> int:
    """Recompute results, or run them again."""
    stored = results.read(options.file)
    names = [verify.rebuild(item).mechanism for item in stored]
    kept = set(matching(names, options.names or None, options.file))
    work = [(item, name) for item, name in zip(stored, names, strict=True) if name in kept]
    entries = [_entry(options.mechanism or name) if options.rerun else None for _, name in work]
    with_exact = [name for item, name in work if item.get("exact") is not None]
    known = _with_known_laws(with_exact, options.mechanism)
    say = sayer(options)
    verified = []
    for (item, name), entry in zip(work, entries, strict=True):
        found = verify.rerun(item, entry, options.jobs) if entry else verify.recompute(item, known.get(name))
        verified.append(found)
        say(_line(found))
        for difference in found.differences:
            say(f"  {visible(difference)}")
    holding = sum(found.holds for found in verified)
    say(f"{holding} of {len(work)} results are as stored.")
    for what in sorted({what for found in verified for what in found.unchecked}):
        say(f"Not checked: {what}.")
    say_json(options, [_facts(found) for found in verified])
    return AS_EXPECTED if holding == len(work) else SURPRISED


def _facts(found: verify.Verification) -> dict[str, object]:
    """Return one result's line as JSON."""
    facts = {name: getattr(found, name) for name in ("holds", "how", "differences", "unchecked")}
    return {"mechanism": found.result.mechanism, **facts}


def _line(found: verify.Verification) -> str:
    """Say of one result what is certified, at which confidence, what was done, and whether it is as stored."""
    result, name = found.result, visible(found.result.mechanism)
    if not found.possible:
        return f"{name}: no audit can have given this: DIFFERENT"
    certified = f"{result.claim.symbol} >= {lower(result.lower_bound)} at {percent(result.confidence)} confidence"
    exact = ", exact not checked" if verify.EXACT in found.unchecked else ""
    return f"{name}: {certified}, {found.how}{exact}: {'as stored' if found.holds else 'DIFFERENT'}"


def _entry(name: str) -> Entry:
    """What runs a name again: a mechanism of a library in its environment, or what is registered."""
    return entry_of(name) or chosen([name])[0]


def _with_known_laws(names: Sequence[str], own: str | None) -> dict[str, Entry]:
    """Entries that may know the laws behind the exact values of these results: what is registered, or one's own."""
    if not names:
        return {}
    return dict.fromkeys(names, chosen([own])[0]) if own else registered()
