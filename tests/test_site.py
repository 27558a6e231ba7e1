"""The built documentation: read and searched from its folder in a real browser, on a desktop and on a phone."""

import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from test_docs import ROOT, load

formulas, hooks = load("formulas"), load("hooks")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = element => element && (
    ["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  const wide = [...document.querySelectorAll(".md-content *")].filter(
    element => element.getBoundingClientRect().right > width + 1 && !scrolls(element));
  const formulas = [...document.querySelectorAll(".formula")].filter(one => one.scrollWidth > one.clientWidth + 1);
  return [...wide, ...formulas].map(element => element.textContent.slice(0, 60));
}"""
"""JavaScript that returns the texts of elements beyond the right edge, and of formulas that have to be scrolled."""


class Text(HTMLParser):
    """The text of some HTML, without its elements."""

    def __init__(self, content):
        super().__init__()
        self.text = ""
        self.feed(content)

    def handle_data(self, data):
        self.text += re.sub(r"\s", "", data)


def sources():
    """All formulas of the pages, as LaTeX."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(
            r"^ *```.*?^ *```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        found += [block or inline for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\s](?:[^$]*[^$\s])?)\$", text)]
    return found


class TestFormulas:
    def test_pieces_together_are_the_formula(self):
        found = sources()
        assert len(found) > 1000
        long = [source for source in found if len(formulas.pieces(source)) > 1]
        assert len(long) > 50
        for source in long:
            assert "".join("".join(formulas.pieces(source)).split()) == "".join(source.split())

    def test_no_symbol_is_lost_at_the_end_of_a_piece(self):
        """The text of the pieces is the text of the formula; a wide space has none."""
        for source in sources():
            if len(formulas.pieces(source)) > 1:
                whole, divided = formulas._convert(source), formulas.to_mathml(source)
                assert Text(whole).text == Text(divided).text, source

    @pytest.mark.parametrize(
        "source",
        [
            r"\frac{a + b + c + d + e}{f + g + h + i + j} \left(k + l + m + n\right)",
            r"P[a + b = c + d \le e + f = g + h = i + j]",
            r"|a + b + c + d + e + f + g + h + i + j + k|",
            r"x^{-1} a_+ b_{= 3} \{a + b, c + d, e + f, g + h\}",
        ],
    )
    def test_brackets_arguments_and_indices_stay_in_one_piece(self, source):
        assert formulas.pieces(source) == [source]

    def test_an_exponent_belongs_to_the_whole_bracket(self):
        assert formulas.to_mathml(r"\bigl(a\bigr)^2") == formulas.to_mathml(r"\left(a\right)^2")

    def test_punctuation_stays_on_the_line_of_its_formula(self):
        page = formulas.replace_formulas(r'if <span class="arithmatex">\(x &lt; y\)</span>, then')
        assert re.fullmatch(r'if <span class="nowrap"><math .*?</math>,</span> then', page)
        assert "&#x0003C;" in page


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://example.org/group/epsaudit.git", "https://example.org/group/epsaudit"),
        ("https://token@example.org/group/epsaudit", "https://example.org/group/epsaudit"),
        ("git@example.org:group/epsaudit.git", "https://example.org/group/epsaudit"),
        ("ssh://git@example.org:2222/group/epsaudit.git", "https://example.org/group/epsaudit"),
        ("/srv/git/epsaudit", None),
        ("../epsaudit.git", None),
        (None, None),
    ],
)
def test_the_repository_is_the_one_from_which_the_folder_was_cloned(origin, address, tmp_path):
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    if origin is not None:
        subprocess.run([*git, "remote", "add", "origin", origin], check=True)
    assert hooks.repository_address(tmp_path) == address


@pytest.mark.parametrize("address", ["https://example.org/group/epsaudit", None])
def test_every_page_names_the_version_and_links_to_the_repository(address, monkeypatch):
    monkeypatch.setattr(hooks, "repository_address", lambda folder: address)
    config = hooks.on_config(SimpleNamespace(site_name="epsaudit", repo_url=None, repo_name=None))
    assert config.site_name == f"epsaudit {VERSION}"
    assert (config.repo_url, config.repo_name) == (address, address and "group/epsaudit")


def test_pages_from_the_top_folder_link_to_pages_of_the_site():
    for name in hooks.FROM_TOP_FOLDER:
        content = hooks.from_top_folder(name)
        links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", content) if "://" not in link]
        made = set(hooks.FROM_TOP_FOLDER.values())
        assert [link for link in links if link not in made and not (ROOT / "docs" / link).is_file()] == []
    assert "[security](security.md)" in hooks.from_top_folder("CHANGELOG")


def test_the_overview_of_the_api_names_what_its_pages_document():
    folder = ROOT / "docs" / "reference"
    rows = re.findall(
        r"^\| .*?\[[^]]*\]\(api/([\w-]+)\.md\) \| (.*) \|$", (folder / "api.md").read_text(), re.MULTILINE
    )
    assert {page for page, _ in rows} == {path.stem for path in (folder / "api").glob("*.md")}
    for page, names in rows:
        entries = re.findall(r"^::: [\w.]*?(\w+)$", (folder / "api" / f"{page}.md").read_text(), re.MULTILINE)
        assert sorted(re.findall(r"`(\w+)`", names)) == sorted(entries)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.mark.slow
class TestSite:
    def open(self, browser, viewport):
        context = browser.new_context(viewport=viewport, offline=True)
        context.set_default_timeout(20_000)
        return context.new_page()

    def test_it_is_searched_from_its_folder_and_loads_nothing_from_elsewhere(self, browser, site):
        tab, asked = self.open(browser, DESKTOP), []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto((site / "index.html").as_uri())
        tab.locator(".md-search__input").fill("canary")
        tab.locator(".md-search-result__meta", has_text="matching documents").wait_for()
        found = tab.locator(".md-search-result__item .md-search-result__title, .md-search-result__item h1")
        assert "A bound from scores" in found.all_inner_texts()
        assert asked
        assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []

    def test_home_leads_to_everything_and_names_the_version(self, browser, site):
        tab = self.open(browser, DESKTOP)
        tab.goto((site / "index.html").as_uri())
        assert tab.locator(".md-header__title").first.inner_text().split("\n")[0] == f"epsaudit {VERSION}"
        shown = tab.locator(".md-sidebar--primary .md-nav--primary > .md-nav__list > .md-nav__item").all_inner_texts()
        assert [one.strip() for one in shown] == [
            *("Home", "Tutorials", "How-to guides", "Reference", "Explanation", "Findings", "About")
        ]
        tab.goto((site / "changelog.html").as_uri())
        assert VERSION in tab.locator("h2").first.inner_text()

    @pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_nothing_is_cut_off_and_formulas_fit(self, browser, site, viewport):
        tab, wrong = self.open(browser, viewport), {}
        pages = sorted(site.rglob("*.html"))
        assert len(pages) > 60
        for page in pages:
            tab.goto(page.as_uri())
            if found := tab.evaluate(TOO_WIDE):
                wrong[str(page.relative_to(site))] = found
        assert wrong == {}

    def test_a_table_that_scrolls_shows_it(self, browser, site):
        tab = self.open(browser, PHONE)
        tab.goto((site / "reference" / "claims.html").as_uri())
        wraps = tab.locator(".md-typeset__scrollwrap")
        assert wraps.first.evaluate("one => one.scrollWidth > one.clientWidth")
        tab.add_style_tag(content="* { transition: none !important; animation: none !important }")
        edge = wraps.first.evaluate("""one => {
            one.scrollIntoView();
            const box = one.getBoundingClientRect();
            return {x: box.right - 8, y: 200, width: 8, height: 100};
        }""")
        tab.wait_for_timeout(500)  # until the scrolled page is drawn
        shadowed = tab.screenshot(clip=edge)
        assert tab.screenshot(clip=edge) == shadowed
        wraps.first.evaluate("one => { one.style.background = 'none' }")
        tab.wait_for_timeout(500)
        assert tab.screenshot(clip=edge) != shadowed, "without its shadows the edge looks the same"
