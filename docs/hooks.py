"""Hooks that mkdocs calls while it builds the site.

They name the version and the repository, create the page of constants from the source code, take in the changelog and
other files of the top folder and the files of results/ to which pages link, and convert formulas.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import constants  # noqa: E402  # the line above adds the folder to the import path
import formulas  # noqa: E402

INCLUDED = re.compile(r"^<!-- include: (results/\S+) -->$", re.MULTILINE)
RESULT = re.compile(r"\]\(((?:\.\./)+)(results/[^)\s]+)\)")
FROM_TOP_FOLDER = {name: f"{name.lower()}.md" for name in ("CHANGELOG", "SECURITY", "CONTRIBUTING")}
"""Files of the top folder that are pages of the site, without their ending, and the names of the pages."""


def on_startup(command: str, dirty: bool) -> None:
    """Create links to the source folders under build/package, in the layout of the installed package.

    mkdocstrings searches for modules in this layout, because it does not know the setting ``package-dir``.
    """
    package = ROOT / "build" / "package" / "epsaudit"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for source in (*(ROOT / "audit").iterdir(), ROOT / "mechanisms", ROOT / "experiments"):
        (package / source.name).symlink_to(source)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version beside the name of the site, and the address of the repository into every page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_name = f"{config.site_name} {project['version']}"
    config.repo_url = project.get("urls", {}).get("Repository") or repository_address(ROOT)
    config.repo_name = config.repo_url and config.repo_url.partition("://")[2].partition("/")[2]
    return config


def repository_address(folder: Path) -> str | None:
    """Return the web address of the repository from which a folder was cloned, or None if there is none.

    Addresses for ssh, such as ``git@example.org:owner/name.git``, become addresses for a browser.
    """
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(folder), "remote", "get-url", "origin"]
    origin = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    web = re.fullmatch(r"(?:https?://|ssh://)?(?:[^@/]+@)?([\w.-]+\.\w+)(?::\d+)?[:/](.+?)(?:\.git)?/?", origin)
    return f"https://{web[1]}/{web[2]}" if web else None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated page of constants, pages from the top folder, and the files of results/ to which pages link."""
    files.append(File.generated(config, "reference/constants.md", content=constants.page()))
    for name, page in FROM_TOP_FOLDER.items():
        files.append(File.generated(config, page, content=from_top_folder(name)))
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


def from_top_folder(name: str) -> str:
    """Return the content of a Markdown file of the top folder, with links that lead to pages of the site."""
    content = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for other, page in FROM_TOP_FOLDER.items():
        content = content.replace(f"]({other}.md", f"]({page}")
    return content.replace("](docs/", "](")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the results that a page includes, and change its links to results/ so that they lead to the copied files.

    In the repository these links lead out of docs/, while the copies are inside the site.
    """
    markdown = INCLUDED.sub(lambda match: (ROOT / match[1]).read_text(encoding="utf-8"), markdown)
    return RESULT.sub(lambda match: f"]({match[1].removeprefix('../')}{match[2]})", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert the formulas of a page into MathML."""
    return formulas.replace_formulas(content)
