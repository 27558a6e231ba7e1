"""Hooks that mkdocs calls while it builds the site.

They create the page of constants from the source code, copy the files of results/ to which pages link, and convert
formulas into MathML, which browsers display without a script.
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
import constants  # noqa: E402  # the line above adds the folder to the import path

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
INCLUDED = re.compile(r"^<!-- include: (results/\S+) -->$", re.MULTILINE)
RESULT = re.compile(r"\]\(((?:\.\./)+)(results/[^)\s]+)\)")


def on_startup(command: str, dirty: bool) -> None:
    """Create links to the source folders under build/package, in the layout of the installed package.

    mkdocstrings searches for modules in this layout, because it does not know the setting ``package-dir``.
    """
    package = ROOT / "build" / "package" / "epsaudit"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for source in (*(ROOT / "audit").iterdir(), ROOT / "mechanisms", ROOT / "experiments"):
        (package / source.name).symlink_to(source)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated page of constants, and the files of results/ to which pages link."""
    files.append(File.generated(config, "reference/constants.md", content=constants.page()))
    wanted = {
        match[2]
        for page in files.documentation_pages()
        if page.abs_src_path is not None
        for match in RESULT.finditer(Path(page.abs_src_path).read_text(encoding="utf-8"))
    }
    for name in sorted(wanted):
        if (ROOT / name).is_file():  # any other link stays broken, and the strict build reports it
            aside = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name), inclusion=aside))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the results that a page includes, and change its links to results/ so that they lead to the copied files.

    In the repository these links lead out of docs/, while the copies are inside the site.
    """
    markdown = INCLUDED.sub(lambda match: (ROOT / match[1]).read_text(encoding="utf-8"), markdown)
    return RESULT.sub(lambda match: f"]({match[1].removeprefix('../')}{match[2]})", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert the formulas of a page into MathML."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    """Return the MathML of one formula.

    A prime is written as a character and not as a superscript. The character is raised already, and fonts that are not
    designed for formulas would raise a superscript prime too far.
    """
    source = re.sub(r"(\\[A-Za-z]+|[A-Za-z])'", r"{\1′}", html.unescape(match[2]))
    formula = convert(source, display="block" if match[1] == "div" else "inline")
    return re.sub(r"<mi>(&#x02032;|′)</mi>|<mo>(&#x02032;|′)</mo>", '<mo lspace="0" rspace="0">′</mo>', formula)
