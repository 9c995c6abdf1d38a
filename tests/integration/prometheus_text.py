# SPDX-License-Identifier: GPL-2.0-or-later
"""Check a file in the text format of Prometheus, strictly, and print its samples.

Argument: the file. Each sample is printed as a line of JSON with name, labels and value. Anything
that the format does not allow is an error, and so is what it allows but a collector of several
files would refuse: a family in two places, and a sample that is there twice.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_VALUE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|Inf)|NaN")
_TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class FormatError(Exception):
    """What the format does not allow."""


def _unescaped(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], text)


def _labels(text: str) -> tuple[dict[str, str], str]:
    """The labels at the begin of the text, and what is left of it."""
    labels: dict[str, str] = {}
    while not text.startswith("}"):
        found = _LABEL.match(text)
        if found is None or found[1] in labels or found[1].startswith("__"):
            raise FormatError(f"labels: {text}")
        labels[found[1]] = _unescaped(found[2])
        text = text[found.end() :]
        if text.startswith(","):
            text = text[1:]
        elif not text.startswith("}"):
            raise FormatError(f"labels: {text}")
    return labels, text[1:]


class Checker:
    def __init__(self) -> None:
        self._helped: set[str] = set()
        self._typed: dict[str, str] = {}
        self._family = ""
        self._seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()

    def comment(self, line: str) -> None:
        words = line.split(" ", 3)
        if len(words) != 4 or words[1] not in {"HELP", "TYPE"} or not _NAME.fullmatch(words[2]):
            raise FormatError(line)
        kind, name = words[1], words[2]
        if kind == "HELP":
            if name in self._helped:
                raise FormatError(f"two helps: {line}")
            self._helped.add(name)
        else:
            if name in self._typed or name not in self._helped or words[3] not in _TYPES:
                raise FormatError(line)
            self._typed[name] = words[3]
        self._family = name

    def sample(self, line: str) -> dict[str, object]:
        found = _NAME.match(line)
        if found is None:
            raise FormatError(line)
        name, rest = found[0], line[found.end() :]
        labels: dict[str, str] = {}
        if rest.startswith("{"):
            labels, rest = _labels(rest[1:])
        value = rest.removeprefix(" ")
        if value == rest or not _VALUE.fullmatch(value):
            raise FormatError(line)
        kind = self._typed.get(self._family)
        allowed = {self._family}
        if kind == "summary":
            allowed |= {f"{self._family}_sum", f"{self._family}_count"}
        if kind is None or name not in allowed:
            raise FormatError(f"not in the family {self._family}: {line}")
        if kind == "counter" and not name.endswith("_total"):
            raise FormatError(f"a counter without _total: {line}")
        if kind in {"counter", "summary"} and float(value) < 0:
            raise FormatError(f"negative: {line}")
        key = (name, frozenset(labels.items()))
        if key in self._seen:
            raise FormatError(f"twice: {line}")
        self._seen.add(key)
        return {"name": name, "labels": labels, "value": float(value)}


def main() -> None:
    data = Path(sys.argv[1]).read_bytes()
    text = data.decode("utf-8")
    if not text.endswith("\n") or "\r" in text:
        sys.exit("the file does not end with a newline, or has other ends of lines")
    checker = Checker()
    try:
        for line in text.splitlines():
            if line.startswith("#"):
                checker.comment(line)
            else:
                print(json.dumps(checker.sample(line)))
    except FormatError as fault:
        sys.exit(f"{sys.argv[1]}: {fault}")


if __name__ == "__main__":
    main()
