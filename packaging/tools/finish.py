#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes of a part's files, as installed for its package, what the distribution expects."""

from __future__ import annotations

import argparse
import email.utils
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import contents  # noqa: E402
import sbom  # noqa: E402

_LICENCES = {"launcher": "GPL-2.0-or-later AND Apache-2.0", "plugin": "GPL-2.0-or-later"}


def _compress(path: Path, text: bytes) -> None:
    """Without a name and a time, so that equal texts make equal files."""
    path.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    path.chmod(0o644)


def compress_pages(root: Path) -> None:
    """Manual pages are compressed."""
    for page in sorted((root / "share/man").rglob("*.[1-8]")):
        _compress(page.with_name(page.name + ".gz"), page.read_bytes())
        page.unlink()


def drop_search_paths(root: Path) -> None:
    """Outside the bundle, libraries are those that the system's loader finds."""
    for path in contents.elf_files(root):
        if root / contents.BUNDLE not in path.parents:
            subprocess.run(["patchelf", "--remove-rpath", str(path)], check=True)


def clear_modes(root: Path) -> None:
    """Libraries are not programs."""
    for path in contents.elf_files(root):
        if ".so" in path.name:
            path.chmod(0o644)


def write_changelog(documents: Path, package: str, version: str, contact: str, time: int) -> None:
    """One entry: the project's own changelog is among the documents of batchai."""
    date = email.utils.formatdate(time)
    text = (
        f"{package} ({version}) unstable; urgency=medium\n\n"
        f"  * Package of this version; its changes are in CHANGELOG.md of the sources.\n\n"
        f" -- {contact}  {date.replace('-0000', '+0000')}\n"
    )
    _compress(documents / "changelog.Debian.gz", text.encode())


def copy_licences(documents: Path, found: contents.Contents) -> None:
    """The licences of what is in the bundle, and of what was compiled in."""
    for kind, packages in (("bundle", found.bundled), ("compiled-in", found.compiled_in)):
        for package in sorted(packages):
            target = documents / kind / f"{package.name}.copyright"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(package.copyright_file, target)
            target.chmod(0o644)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the prefix with the part's files")
    parser.add_argument("--build", type=Path, required=True, help="the build directory")
    parser.add_argument("--part", required=True, help="the component of the installation")
    parser.add_argument("--package", required=True, help="the name of its package")
    parser.add_argument("--version", required=True, help="VERSION-RELEASE")
    parser.add_argument("--contact", required=True, help="NAME <ADDRESS>")
    parser.add_argument("--time", type=int, required=True, help="of the sources, seconds")
    given = parser.parse_args()
    documents = given.root / "share/doc" / given.package
    found = contents.of_package(given.root, given.part, given.build)
    compress_pages(given.root)
    drop_search_paths(given.root)
    clear_modes(given.root)
    write_changelog(documents, given.package, given.version, given.contact, given.time)
    copy_licences(documents, found)
    licence = _LICENCES.get(given.part, "Apache-2.0")
    target = documents / "sbom.spdx.json"
    target.write_text(
        sbom.document(given.root, given.package, given.version, licence, found, given.time),
        encoding="utf-8",
    )
    target.chmod(0o644)


if __name__ == "__main__":
    os.umask(0o022)
    main()
