"""The jinja2 templates of reports: their environment, and the text of a plain-text template.

The page of results and the reproducer of a refuted claim both use the templates in the folder ``templates``.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from epsaudit.text import lower, percent


def template_environment(**how: Any) -> Any:
    """Return the jinja2 environment for the report templates. ``how`` contains options of `jinja2.Environment`."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.tools.reporting"), undefined=jinja2.StrictUndefined, **how
    )
    environment.filters |= {"lower": lower, "percent": percent}
    return environment


def embedded(name: str) -> tuple[Markup, str]:
    """Return the text of a style sheet or script for an HTML page, and its hash for the content security policy.

    The text is marked as safe, so that jinja2 does not escape it. The file must therefore contain no text of a result.
    """
    text = files("epsaudit.tools.reporting").joinpath("templates", name).read_text(encoding="utf-8").strip()
    return Markup(text), base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fill_template(template: str, **facts: Any) -> str:
    """Fill the values ``facts`` into a plain-text template, and return the resulting text."""
    environment = template_environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    text: str = environment.get_template(template).render(**facts)
    return text
