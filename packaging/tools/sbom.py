# SPDX-License-Identifier: GPL-2.0-or-later
"""A bill of materials in the format SPDX 2.3 (JSON), from a package's own data."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import dpkg
from contents import Contents

# What is compiled in. Others are named with the distribution's file about their licence.
_LICENCES = {
    "libcli11-dev": "BSD-3-Clause",
    "libexpected-dev": "CC0-1.0",
    "libfmt-dev": "MIT",
    "libjsoncons-dev": "BSL-1.0",
    "libspdlog-dev": "MIT",
    "libtomlplusplus-dev": "MIT",
    "libyaml-cpp-dev": "MIT",
}
_RELATIONS = {
    "compiled_in": "Headers, or a static library, are compiled into the package's programs.",
    "needed": "The package's programs load it.",
    "bundled": "Files of it are copied into the package, for containers.",
}


def _digest(path: Path, algorithm: str) -> str:
    return hashlib.new(algorithm, path.read_bytes()).hexdigest()


def _identifier(*words: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)).strip("-")


def _files(root: Path) -> list[dict[str, Any]]:
    paths = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return [
        {
            "SPDXID": _identifier("File", str(number), path.name),
            "fileName": f"./usr/{path.relative_to(root)}",
            "checksums": [
                {"algorithm": name.upper(), "checksumValue": _digest(path, name)}
                for name in ("sha1", "sha256")
            ],
            "licenseConcluded": "NOASSERTION",
            "copyrightText": "NOASSERTION",
        }
        for number, path in enumerate(paths)
    ]


def _other(package: dpkg.Installed, comment: str) -> dict[str, Any]:
    return {
        "SPDXID": _identifier("Package", package.name),
        "name": package.name,
        "versionInfo": package.version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": _LICENCES.get(package.name, "NOASSERTION"),
        "copyrightText": "NOASSERTION",
        "comment": f"{comment} Its licence: {package.copyright_file}",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{package.source}@{package.source_version}",
            }
        ],
    }


def document(
    root: Path, package: str, version: str, licence: str, contents: Contents, time: int
) -> str:
    """The text of the document. It lists what is below `root`, so it is written there last."""
    files = _files(root)
    sums = sorted(each["checksums"][0]["checksumValue"] for each in files)
    verification = hashlib.sha1("".join(sums).encode()).hexdigest()
    own = _identifier("Package", package)
    packages = [
        {
            "SPDXID": own,
            "name": package,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": True,
            "packageVerificationCode": {
                "packageVerificationCodeValue": verification,
                "packageVerificationCodeExcludedFiles": [
                    f"./usr/share/doc/{package}/sbom.spdx.json"
                ],
            },
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
        }
    ]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own)]
    relations += [(own, "CONTAINS", each["SPDXID"]) for each in files]
    described = {own}
    for kind, relation in (
        ("bundled", "CONTAINS"),
        ("needed", "DYNAMIC_LINK"),
        ("compiled_in", "STATIC_LINK"),
    ):
        for other in sorted(getattr(contents, kind)):
            entry = _other(other, _RELATIONS[kind])
            if entry["SPDXID"] not in described:
                described.add(entry["SPDXID"])
                packages.append(entry)
            relations.append((own, relation, entry["SPDXID"]))
    created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc)
    return (
        json.dumps(
            {
                "spdxVersion": "SPDX-2.3",
                "dataLicense": "CC0-1.0",
                "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"{package}-{version}",
                "documentNamespace": f"https://spdx.org/spdxdocs/{package}-{version}-{verification}",
                "creationInfo": {
                    "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "creators": [f"Tool: batchai-packaging-{version}"],
                },
                "packages": packages,
                "files": files,
                "relationships": [
                    {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                    for one, kind, other in relations
                ],
            },
            indent=1,
        )
        + "\n"
    )
