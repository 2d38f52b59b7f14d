"""From answers to HTML. Everything is escaped: what others wrote is data, on a page too."""

import os
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from interlock import __version__
from interlock.doors.web import task_views, views
from interlock.doors.web.assets import Assets

FOLDER = os.path.join(os.path.dirname(__file__), "templates")


class Page(NamedTuple):
    """A place of the navigation."""

    path: str
    name: str


PAGES = (Page("/", "Now"), Page("/work", "Work"), Page("/review", "Review"))


class Templates:
    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(asset=assets.url, pages=PAGES, version=__version__)
        self._environment.filters.update(
            clock=views.clock,
            ago=views.ago,
            left=views.left,
            count=views.count,
            size=views.size,
            duration=task_views.duration,
        )

    def page(self, name: str, **members: Any) -> str:
        return self._environment.get_template(name).render(members)

    def part(self, name: str, **members: Any) -> Markup:
        """A piece of a page, safe to be put into one as it is."""
        return Markup(self._environment.get_template(f"parts/{name}.html").render(members))  # noqa: S704 - escaped by the template
