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
    """Return the jinja2 environment of the report templates; ``how`` contains its options."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.tools.reporting"), undefined=jinja2.StrictUndefined, **how
    )
    environment.filters |= {"lower": lower, "percent": percent}
    return environment


def embedded(name: str) -> tuple[Markup, str]:
    """Return a template file that contains no text of a result, and its hash for the content security policy.

    Escaping would break the file.
    """
    text = files("epsaudit.tools.reporting").joinpath("templates", name).read_text(encoding="utf-8").strip()
    return Markup(text), base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fill_template(template: str, **facts: Any) -> str:
    """Return the text of a plain-text template in which the given facts are filled in."""
    environment = template_environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    text: str = environment.get_template(template).render(**facts)
    return text
