#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the pages without Sphinx: links, anchors, the list of pages, and the page of variables.

documentation.py links | variables
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PAGES = sorted(TREE.glob("docs/*.md")) + [
    TREE / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
]

LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
CODE = re.compile(r"(`+)(?:(?!\1).)*?\1", re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")

# Where the code of each variable is. The Python packages' tests are beside the packages.
CODE_FOLDERS = ("launcher", "spank", "mpi_bridge", "lua")
CODE_ENDINGS = {".cpp", ".hpp", ".h", ".inl", ".py", ".in", ".c"}
# What may be the name of a variable: a text of several words, or the argument of a call that reads
# one.
NAME = re.compile(r"""["']([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+_?)(?:=|["'])""")
READ = re.compile(r"""(?:env|variable|environment|environ\.get)\(
                      (?:handle,\s*)?["']([A-Z][A-Z0-9_]+)["']""", re.VERBOSE)  # fmt: skip
# Beginnings of names, by which variables are kept from other programs.
BEGINNINGS = {"AZURE_BATCHAI_", "AZ_BATCHAI_", "AZ_BATCH", "BATCHAI_"}
# Texts of the same form that are not variables of the environment.
OTHER_TEXTS = re.compile(
    r"""MPIB_\w+                                      # names of mpi_bridge.h
    | (?:BOOT|NODE)_FAIL | OUT_OF_MEMORY | POWER(?:ING)?_UP | POWER_DOWN_ASAP | REQUEUE_\w+
    | RESV_DEL_HOLD | SPECIAL_EXIT | STAGE_OUT        # states of Slurm
    | SLURM_VERSION                                 # a key of Slurm's configuration
    | CONTROL_ROUND | COPY_TO_\w+ | INIT_NCCL | MEMCPY_\w+ | NEGOTIATE_\w+ | SHM_UCX_
    | VERIFY_PLAN | WAIT_FOR_\w*                      # activities of the timeline
    | NET_DEVICES | RNDV_THRESH | WARN_INVALID_CONFIG # settings of UCX, without their prefix
    | GLIBC_ABI_DT_RELR | C_CONTIGUOUS                # a version of a symbol; a flag of numpy
    | NCCL_DEBUG | MY_TOKEN                         # examples of the job file's reference
    | LS_COLORS | SSH_AUTH_SOCK                     # variables that may not hold a secret
    | BATCHAI_SECRET_VARIABLE                       # a line of an answer of batchai""",
    re.VERBOSE,
)


def prose(page: Path) -> list[str]:
    """Returns the lines of a page, with those of blocks of code empty."""
    lines, fence = [], ""
    for line in page.read_text(encoding="utf-8").split("\n"):
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
            line = ""
        lines.append("" if fence else line)
    return lines


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for line in prose(page):
        heading = HEADING.match(line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        base = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        name, number = base, 0
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return found


def faults_of_links(page: Path) -> list[str]:
    """Returns the links of a page that lead nowhere."""
    faults = []
    text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), "\n".join(prose(page)))
    for link in LINK.finditer(text):
        target, _, anchor = link[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        number = text.count("\n", 0, link.start()) + 1
        where = f"{page.relative_to(TREE)}:{number}"
        if not file.is_relative_to(TREE) or not file.exists():
            faults.append(f"{where}: {target} does not exist")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            faults.append(f"{where}: {target or page.name} has no heading #{anchor}")
    return faults


def check_links() -> list[str]:
    """Returns the links that lead nowhere, the pages without text, and those that nobody lists."""
    faults = [fault for page in PAGES for fault in faults_of_links(page)]
    index = TREE / "docs/README.md"
    listed = set(re.findall(r"^- \[[^\]]+\]\(([^)#]+)\)", index.read_text("utf-8"), re.MULTILINE))
    for page in sorted(TREE.glob("docs/*.md")):
        if page != index and page.name not in listed:
            faults.append(f"docs/README.md does not list {page.name}: add a line `- [...](...)`")
        if len(re.findall(r"\w+", "\n".join(prose(page)))) < 30:
            faults.append(f"docs/{page.name} has hardly any text")
    return faults


def texts_of_the_code() -> dict[str, str]:
    """Returns the files of the code with their texts."""
    return {
        str(file.relative_to(TREE)): file.read_text(encoding="utf-8")
        for folder in CODE_FOLDERS
        for file in sorted((TREE / folder).rglob("*"))
        if file.suffix in CODE_ENDINGS and "tests" not in file.relative_to(TREE).parts
    }


def check_variables() -> list[str]:
    """Returns the variables that the code has and the page has not, and the reverse."""
    page = (TREE / "docs/variables.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(_?[A-Z][A-Z0-9_]+)(?:<\w+>)?`", page))
    code = texts_of_the_code()
    in_code: dict[str, str] = {}
    for file, text in code.items():
        for name in NAME.findall(text) + READ.findall(text):
            if not OTHER_TEXTS.fullmatch(name) and name not in BEGINNINGS:
                in_code.setdefault(name, file)
    faults = [
        f"{file}: {name} is not in docs/variables.md; if it is not a variable of the environment, "
        "name it in tests/style/documentation.py"
        for name, file in sorted(in_code.items())
        if name not in names
    ]
    texts = re.findall(r"""["']([^"'\n]*)""", "\n".join(code.values()))
    words = set(re.findall(r"\w+", "\n".join(texts)))
    faults += [f"docs/variables.md: no code has {name}" for name in sorted(names - words)]
    return faults


def main() -> int:
    """Runs the check that the command line names."""
    checks = {"links": check_links, "variables": check_variables}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        print(__doc__, file=sys.stderr)
        return 2
    faults = checks[sys.argv[1]]()
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
