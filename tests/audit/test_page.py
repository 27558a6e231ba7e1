"""The page in a real browser: it sorts, filters, keeps quiet, fits, prints, and runs nothing from a stranger's file."""

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest

from epsaudit import ApproxDP, GaussianDP, PureDP
from epsaudit.audits.suite import run_suite
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.broken.additive import LaplaceHalfNoise
from epsaudit.running.registry import Entry
from epsaudit.text import lower
from epsaudit.tools.reporting import page
from epsaudit.witnesses.events import Region, Witness

ATTACKS = [
    "<script>document.title = 'owned'</script>",
    '"><img src="https://example.invalid/x" onerror="document.title = \'owned\'">',
    "</script><svg onload=\"document.title = 'owned'\">",
    "{{ 7 * 7 }}{% raw %}",
    "a\u202egnp.exe",
    "javascript:document.title='owned'",
]


@pytest.fixture(scope="module")
def results():
    gaussian = Gaussian(1.0, 1e-5)
    entries = [
        Entry("zeta/laplace", Laplace(1.0), PureDP(1.0)),
        Entry("alpha/half-noise", LaplaceHalfNoise(1.0), PureDP(1.0), expected="violated"),
        Entry("beta/gaussian", gaussian, ApproxDP(1.0, 1e-5)),
        Entry("gamma/gaussian-gdp", gaussian, GaussianDP(1.0 / gaussian.sigma)),
    ]
    found = list(run_suite(entries, trials=20_000, n_jobs=1))
    return [*found, dataclasses.replace(found[1], mechanism="delta/endless", exact=math.inf)]


@pytest.fixture(scope="module")
def strange(results):
    witness = Witness(Region(included=tuple(ATTACKS)), results[0].witness.guess_x_prime)
    return [
        dataclasses.replace(
            results[0],
            mechanism=attack,
            x=attack,
            x_prime=attack,
            pair=attack,
            witness=witness,
            provenance={attack: attack},
            execution={"command": attack, "started": attack, "machine": attack},
        )
        for attack in ATTACKS
    ]


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens results as a page from disk, and what the browser complained of or asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    context.set_default_timeout(10_000)
    heard = []

    def open_page(results):
        (tmp_path / "report.html").write_text(page.render_page(results, 0.95), encoding="utf-8")
        tab = context.new_page()
        tab.on("console", lambda message: heard.append(message.text))
        tab.on("pageerror", lambda error: heard.append(str(error)))
        tab.on("request", lambda request: heard.append(request.url))
        tab.on("dialog", lambda dialog: heard.append(dialog.message))
        tab.goto((tmp_path / "report.html").as_uri())
        return tab, heard

    yield open_page
    context.close()


def names(tab):
    return tab.locator("#results tbody tr:not([hidden]) th").all_inner_texts()


class TestInTheBrowser:
    def test_it_opens_from_disk_and_asks_for_nothing(self, opened, results):
        tab, heard = opened(results)
        assert len(names(tab)) == tab.locator("article").count() == len(results)
        assert heard == [tab.url]

    def test_a_button_sorts_up_and_down_and_says_so(self, opened, results):
        tab, heard = opened(results)
        tab.get_by_role("button", name="mechanism").click()
        assert names(tab) == sorted(result.mechanism for result in results)
        header = tab.get_by_role("columnheader", name="mechanism")
        assert header.get_attribute("aria-sort") == "ascending"
        tab.get_by_role("button", name="mechanism").click()
        assert names(tab) == sorted((result.mechanism for result in results), reverse=True)
        assert header.get_attribute("aria-sort") == "descending"
        tab.get_by_role("button", name=re.compile("^certified$")).click()
        bounds = [lower(bound) for bound in sorted(result.lower_bound for result in results)]
        assert tab.locator("#results tbody tr td:nth-child(2)").all_inner_texts() == bounds
        assert header.get_attribute("aria-sort") is None
        assert tab.locator("th[aria-sort]").count() == 1
        assert "ascending" in tab.locator("#said").inner_text()
        assert len(heard) == 1

    def test_words_verdict_and_claim_filter_rows_and_cards(self, opened, results):
        tab, _ = opened(results)
        tab.get_by_label("Name, event or any word").fill("GAUSSIAN")
        assert names(tab) == ["beta/gaussian", "gamma/gaussian-gdp"]
        assert tab.locator("article:visible").count() == 2
        assert tab.locator("#said").inner_text().startswith("2 of 5")
        tab.get_by_role("combobox", name="Claim").select_option("Gaussian DP")
        assert names(tab) == ["gamma/gaussian-gdp"]
        tab.get_by_label("Name, event or any word").fill("")
        tab.get_by_role("combobox", name="Claim").select_option("all")
        tab.get_by_role("combobox", name="Verdict").select_option("violated")
        assert names(tab) == [result.mechanism for result in results if result.violates_claim]

    @pytest.mark.parametrize("width", [320, 700, 1600])
    def test_it_fits_every_width(self, opened, results, width):
        tab, _ = opened(results)
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        cards = tab.evaluate(
            "Array.from(document.querySelectorAll('.card')).filter(e => e.scrollWidth > e.clientWidth).length"
        )
        assert cards == 0

    def test_without_its_script_the_page_is_still_whole(self, browser, results, tmp_path):
        (tmp_path / "report.html").write_text(page.render_page(results, 0.95), encoding="utf-8")
        context = browser.new_context(java_script_enabled=False)
        tab = context.new_page()
        tab.goto((tmp_path / "report.html").as_uri())
        assert tab.locator("article:visible").count() == len(results)
        assert tab.locator(".controls").is_hidden()
        context.close()

    def test_nothing_of_a_strangers_file_runs(self, opened, strange):
        tab, heard = opened(strange)
        assert tab.title().startswith("Privacy audit")
        assert tab.locator("script").count() == 1
        assert tab.locator("img, iframe, object, embed").count() == 0
        assert heard == [tab.url]
        shown = names(tab)
        assert shown[0] == ATTACKS[0]
        assert "[U+202E]" in shown[4]
        tab.get_by_role("button", name="mechanism").click()
        assert len(names(tab)) == len(ATTACKS)

    def test_even_an_escape_forgotten_would_not_run(self, opened, results, tmp_path, monkeypatch):
        whole = page.render_page
        script = "<script>document.title = 'owned'</script><p onclick=\"document.title = 'owned'\" id=hole>hole</p>"
        monkeypatch.setattr(page, "render_page", lambda *given: whole(*given).replace("<h1>", f"{script}<h1>"))
        tab, heard = opened(results)
        tab.locator("#hole").click()
        assert tab.title().startswith("Privacy audit")
        assert any("Content Security Policy" in line for line in heard)


class Reader(HTMLParser):
    """Collects elements, addresses and text."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses, self.handlers, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action", "xlink:href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.text.append(data)


class TestAsText:
    def test_names_and_events_are_escaped(self, strange):
        reader = Reader()
        reader.feed(page.render_page(strange, 0.95))
        assert reader.tags.count("script") == 1
        assert "img" not in reader.tags
        assert reader.handlers == []
        assert all(address == "data:," or address.startswith("#") for address in reader.addresses)
        assert any(ATTACKS[0] in text for text in reader.text)
        assert not any("\u202e" in text for text in reader.text)
