# SPDX-License-Identifier: GPL-2.0-or-later
"""Settings of Sphinx, which scripts/docs runs over docs/*.md and the pages at the root.

The pages are written for GitHub. Added here are the navigation, which is read from the list of
pages in docs/README.md, links to files of the tree that are not pages, and what manual pages need:
lists instead of tables, and names instead of links.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# The sources are the whole tree, so that links between docs/ and the root work as on GitHub.
tree = Path(__file__).resolve().parent.parent

project = "Batch AI for Slurm"
author = "The authors of Batch AI for Slurm"
copyright = author  # noqa: A001
version = re.search(
    r"project\(\s*\w+\s+VERSION ([\d.]+)", (tree / "CMakeLists.txt").read_text(encoding="utf-8")
)[1]
release = version

root_doc = "docs/README"
include_patterns = ["docs/*.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
# Sphinx follows links to directories, such as .cache, unless they are named here.
exclude_patterns = [
    path.name for path in tree.iterdir() if path.is_dir() and path.name != "docs"
] + ["**/.*", "docs/images", "docs/measurements"]

extensions = ["myst_parser"]
myst_heading_anchors = 6
# Without these, two hyphens or three dots of a command would become other characters.
smartquotes = False
nitpicky = True

templates_path = ["_templates"]
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# Where scripts/docs has drawn the charts of the pages; nothing for manual pages, which show none.
charts = os.environ.get("BATCHAI_CHARTS")
if charts:
    html_static_path.append(charts)
html_additional_pages = {"index": "index.html"}
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None

man_show_urls = False
man_make_section_directory = True
# page, name, description, authors, section
man_pages = [
    ("docs/job-json", "job.json", "job file of Batch AI", "", 5),
    ("docs/site", "site.lua", "description of a site for Batch AI", "", 5),
    ("docs/plugin", "batchai.so", "SPANK plugin of Batch AI for Slurm", "", 8),
    ("docs/variables", "batchai-variables", "environment variables of Batch AI", "", 7),
    ("docs/errors", "batchai-errors", "messages about job files and their remedies", "", 7),
]

list_entry = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+\.md)\)", re.MULTILINE)


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds to each section of the list of pages a hidden toctree of the pages that it lists."""
    if page != root_doc:
        return
    parts = re.split(r"^## (.+)$", source[0], flags=re.MULTILINE)
    out = parts[:1]
    for heading, body in zip(parts[1::2], parts[2::2]):
        entries = "".join(f"{m['title']} <{m['page']}>\n" for m in list_entry.finditer(body))
        out.append(f"## {heading}{body.rstrip()}\n\n")
        if entries:
            out.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}```\n\n")
    source[0] = "".join(out)


def add_charts(app: Sphinx, page: str, source: list[str]) -> None:
    """Shows the chart that a comment names, such as `<!-- chart: a.svg: Title -->`."""

    def shown(comment: re.Match[str]) -> str:
        if charts is None:
            return ""
        if not (Path(charts) / comment["name"]).is_file():
            logger = logging.getLogger(__name__)
            logger.warning("there is no chart %s", comment["name"], location=page)
        to_root = "../" * page.count("/")
        title = html.escape(comment["title"])
        return f'<img src="{to_root}_static/{comment["name"]}" alt="{title}">'

    source[0] = re.sub(r"<!-- chart: (?P<name>[^:]+): (?P<title>.+?) -->", shown, source[0])


class LinksToFiles(SphinxTransform):
    """Lets a file that is not a page be downloaded, and leaves only the name of a directory.

    A link to something that does not exist stays as it is, and Sphinx reports it.
    """

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        """Replaces the links of one page."""
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("reftype") != "myst":
                continue
            if link.get("refdomain") == "doc":
                self._link_to_markdown(link)
            else:
                name = link["reftarget"].split("#")[0]
                if name and Path(self.env.relfn2path(name, self.env.docname)[1]).is_dir():
                    link.replace_self(link.children)

    def _link_to_markdown(self, link: addnodes.pending_xref) -> None:
        page = link["reftarget"]
        file = f"{page}.md"
        if page in self.env.found_docs or not (tree / file).is_file():
            return
        download = addnodes.download_reference(
            "", "", *link.children, reftarget=f"/{file}", refdoc=self.env.docname, refexplicit=True
        )
        link.replace_self(download)


def manual_page_name(page: str) -> str | None:
    """Returns how a manual page is cited that is made of the page: job.json(5)."""
    for source, name, _, _, section in man_pages:
        if source == page:
            return f"{name}({section})"
    return None


class LinksAsNames(SphinxPostTransform):
    """Leaves the text of a link in a manual page, or cites the manual page that it leads to."""

    default_priority = 2  # before Sphinx looks for the targets
    formats = ("man",)

    def run(self, **kwargs: object) -> None:
        """Replaces the links of one page."""
        links = list(self.document.findall(addnodes.pending_xref))
        for link in links + list(self.document.findall(addnodes.download_reference)):
            cited = manual_page_name(link["reftarget"]) if "refdomain" in link else None
            link.replace_self(nodes.strong(text=cited) if cited else link.children)
        for link in list(self.document.findall(nodes.reference)):
            if not link.get("refuri", "").startswith(("http:", "https:")):
                link.replace_self(link.children)


class SectionsOfManuals(SphinxPostTransform):
    """Gives a manual page the sections that all have: a description, and what else to read."""

    default_priority = 900
    formats = ("man",)

    def run(self, **kwargs: object) -> None:
        """Adds the sections to one page."""
        page = self.document.next_node(nodes.section)
        first = page.first_child_matching_class(nodes.section) or len(page.children)
        description = nodes.section("", nodes.title(text="Description"))
        # A name must not be hyphenated, and adjusted lines with long names would have wide gaps.
        description += nodes.raw("", ".nh\n.ad l\n", format="manpage")
        description += page.children[1:first]
        others = [name for name in map(manual_page_name, (entry[0] for entry in man_pages)) if name]
        see_also = nodes.section("", nodes.title(text="See also"))
        see_also += nodes.paragraph(text=", ".join(["batchai(1)", *sorted(others)]))
        page.children[1:first] = []
        page.insert(1, description)
        page += see_also


class TablesAsLists(SphinxPostTransform):
    """Makes a list of each table of a manual page, because troff cannot lay out our tables."""

    default_priority = 1
    formats = ("man",)

    def run(self, **kwargs: object) -> None:
        """Replaces the tables of one page."""
        for table in list(self.document.findall(nodes.table)):
            headings = [cell.astext() for cell in table.next_node(nodes.thead).findall(nodes.entry)]
            items = nodes.definition_list()
            for row in table.next_node(nodes.tbody).findall(nodes.row):
                first, *others = row.findall(nodes.entry)
                definition = nodes.definition()
                for heading, cell in zip(headings[1:], others):
                    paragraph = nodes.paragraph()
                    if len(others) > 1:
                        paragraph += nodes.Text(f"{heading}: ")
                    for part in cell.children:
                        paragraph += part.children
                    if cell.astext().strip():
                        definition += paragraph
                term = nodes.term()
                for part in first.children:
                    term += part.children
                items += nodes.definition_list_item("", term, definition)
            table.replace_self(items)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_charts)
    app.add_transform(LinksToFiles)
    for transform in (LinksAsNames, SectionsOfManuals, TablesAsLists):
        app.add_post_transform(transform)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
