"""A result is stale when code that it depends on says something else, and only then."""

import ast

import pytest

from epsaudit.results import stored
from epsaudit.results.stored import code, digest, imported


def of(text):
    return code(ast.parse(text))


def test_words_do_not_count_and_statements_do():
    plain = "X = 1\ndef f(x, y=None):\n    return x\n"
    assert of(plain) == of(
        '"""Module."""\nX = 1  # one\n"""Of X."""\ndef f(x,\n  y=None):\n    """Doc."""\n    return x'
    )
    changed = ["X = 2", "X = 1.0", "X = '1'", "X = True", "X = None", "X: int = 1", "Y = 1"]
    assert len({of("X = 1"), *map(of, changed)}) == 1 + len(changed)
    assert of(plain) != of(plain.replace("None", "0"))
    assert of(plain) != of(plain.replace("return x", "return 'x'"))
    assert of("class A:\n  async def f(self):\n    'Doc.'\n    pass") == of("class A:\n  async def f(self): pass")


def test_imports_are_followed_wherever_they_stand_and_the_public_names_to_where_they_are_defined():
    found = imported("epsaudit.experiments.composition")
    assert {
        "epsaudit.audits.fixed",  # from epsaudit import audit
        "epsaudit.mechanisms.additive",  # by name
        "epsaudit.witnesses.scores",  # through others
        "epsaudit.mechanisms.exact.convolution",  # within a function or a package
    } <= set(found)
    assert "epsaudit.experiments.shuffling" not in found
    assert "epsaudit.audits.sequential.auditing" not in found
    assert not [name for name in found if name.startswith("epsaudit.reporting")]
    with pytest.raises(ModuleNotFoundError, match=r"epsaudit\.nothing"):
        imported("epsaudit.nothing")


def test_a_changed_statement_far_below_changes_the_digest_of_those_above_alone(monkeypatch):
    above, beside = "epsaudit.experiments.composition", "epsaudit.errors"
    before = digest(above), digest(beside)
    truly = stored._tree

    def changed(name):
        return ast.parse("X = 1") if name == "epsaudit.certificates" else truly(name)

    monkeypatch.setattr(stored, "_tree", changed)
    stored._digest.cache_clear()
    try:
        assert digest(above) != before[0]
        assert digest(beside) == before[1]
    finally:
        stored._digest.cache_clear()
