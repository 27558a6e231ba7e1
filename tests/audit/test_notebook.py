"""Results of every kind of audit render in notebooks, and no text of theirs becomes HTML."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from epsaudit import DatasetPair, PureDP, audit, audit_scores, audit_sequentially, vectorized

EVIL = "<script>alert('x')</script><img src=x onerror=\"y\">&amp;\u202e\n  seed         0"


def result(kind):
    noisy = vectorized(
        lambda data, size, rng: len(data) + rng.laplace(size=size),
        claim=PureDP(1.0),
        name=EVIL,
        pairs=[DatasetPair((EVIL,), (), name=EVIL)],
    )
    if kind == "one run":
        rng = np.random.default_rng(1)
        coins = rng.integers(0, 2, 1_000).astype(bool)
        return audit_scores(coins, coins + rng.laplace(size=1_000), claim=PureDP(1.0), name=EVIL)
    kinds = {
        "fixed": lambda: audit(noisy, trials=5_000, seed=1),
        "sequential": lambda: audit_sequentially(noisy, trials=2_000, seed=1),
    }
    return kinds[kind]()


class Parsed(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "scope"}

    def handle_data(self, data):
        self.words.append(data.strip())


def test_a_notebook_shows_a_figure_without_pyplot():
    drawn = result("one run").plot()
    assert drawn._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["fixed", "sequential", "one run"])
def test_a_notebook_shows_what_print_shows_and_escapes_it(kind):
    found = result(kind)
    assert EVIL in str(found)
    shown = found._repr_html_()
    parsed = Parsed(shown)
    assert set(parsed.tags) == {"div", "p", "table", "tr", "th", "td"}
    assert "<script>alert('x')</script>" in "".join(parsed.words)  # as text
    assert "\u202e" not in shown
    labels = re.findall(r"^  (\S+) {2,}", str(found), flags=re.MULTILINE)
    assert {"counts", "method", "seed"} <= set(labels)
    assert set(labels) <= set(parsed.words)
    assert found.verdict == ("violated" if "#D55E00" in shown else "consistent")
