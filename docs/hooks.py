"""What mkdocs does beyond its plugins.

The page of constants is made from the sources, what pages show of results/ is copied beside them, and
formulas become MathML, which browsers draw without a script.
"""

import html
import re
import shutil
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import constants  # noqa: E402  # found by the line above

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
INCLUDED = re.compile(r"^<!-- include: (results/\S+) -->$", re.MULTILINE)
RESULT = re.compile(r"\]\(((?:\.\./)+)(results/[^)\s]+)\)")


def on_startup(command: str, dirty: bool) -> None:
    """Lay the folders out as they install, in links, before mkdocstrings looks for them: it knows no package-dir."""
    package = ROOT / "build" / "package" / "epsaudit"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for source in (*(ROOT / "audit").iterdir(), ROOT / "mechanisms", ROOT / "experiments"):
        (package / source.name).symlink_to(source)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated page, and the results that pages link to."""
    files.append(File.generated(config, "reference/constants.md", content=constants.page()))
    wanted = {
        match[2]
        for page in files.documentation_pages()
        if page.abs_src_path is not None
        for match in RESULT.finditer(Path(page.abs_src_path).read_text(encoding="utf-8"))
    }
    for name in sorted(wanted):
        if (ROOT / name).is_file():  # a link to anything else stays broken, and the build says so
            aside = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name), inclusion=aside))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in the results that a page includes; links to results/ lead to the copies, in the repository out of docs/."""
    markdown = INCLUDED.sub(lambda match: (ROOT / match[1]).read_text(encoding="utf-8"), markdown)
    return RESULT.sub(lambda match: f"]({match[1].removeprefix('../')}{match[2]})", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn formulas into MathML."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    """A prime is raised already; as a superscript, too, it flies away in fonts that are not made for formulas."""
    source = re.sub(r"(\\[A-Za-z]+|[A-Za-z])'", r"{\1′}", html.unescape(match[2]))
    formula = convert(source, display="block" if match[1] == "div" else "inline")
    return re.sub(r"<mi>(&#x02032;|′)</mi>|<mo>(&#x02032;|′)</mo>", '<mo lspace="0" rspace="0">′</mo>', formula)
