# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads CIFAR-10 in the form in which it is distributed for Python.

Five training files and one test file, each a pickle of Python 2 with the keys "data" (one row of
3072 bytes per image: 1024 red, 1024 green, 1024 blue, row by row) and "labels".
"""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np

FOLDER = "cifar-10-batches-py"
ARCHIVE = "cifar-10-python.tar.gz"
TRAINING_FILES = [f"data_batch_{number}" for number in range(1, 6)]
TEST_FILE = "test_batch"
SYNTHETIC_MARKER = "SYNTHETIC"
GENERATOR = "make_synthetic_cifar10.py"
SIDE = 32
_IMAGE_BYTES = 3 * SIDE * SIDE

_Reader = Callable[[str], bytes]


class DataError(Exception):
    """The data set is missing or not in the expected form; the text says what to do."""


@dataclass(frozen=True)
class Cifar10:
    """Images as [number, row, column, colour] bytes, labels as numbers from 0 to 9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    description: str


class _ArrayUnpickler(pickle.Unpickler):
    """Builds plain values and numpy arrays only, so that a data file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
        }:
            return np.ndarray.__reduce__(np.empty(0))[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it wants to load {module}.{name}")


def _read_batch(name: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
        images = np.asarray(batch[b"data"], dtype=np.uint8)
        labels = np.asarray(batch[b"labels"], dtype=np.int64)
        images = images.reshape(len(labels), 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name} is no CIFAR-10 batch: {error}") from error
    if len(labels) == 0 or labels.min() < 0 or labels.max() > 9:
        raise DataError(f"{name} is no CIFAR-10 batch: labels must be numbers from 0 to 9")
    return images, labels


def _read_all(place: Path, read: _Reader, is_synthetic: bool) -> Cifar10:
    parts = [_read_batch(name, read(name)) for name in TRAINING_FILES]
    test_images, test_labels = _read_batch(TEST_FILE, read(TEST_FILE))
    kind = "SYNTHETIC CIFAR-10-format images, made by a program" if is_synthetic else "CIFAR-10"
    return Cifar10(
        train_images=np.concatenate([images for images, _ in parts]),
        train_labels=np.concatenate([labels for _, labels in parts]),
        test_images=test_images,
        test_labels=test_labels,
        description=f"{kind} ({place})",
    )


def _load_directory(directory: Path) -> Cifar10:
    def read(name: str) -> bytes:
        try:
            return (directory / name).read_bytes()
        except OSError as error:
            raise DataError(f"{directory / name}: {error.strerror}") from error

    return _read_all(directory, read, (directory / SYNTHETIC_MARKER).exists())


def _load_archive(path: Path) -> Cifar10:
    try:
        with tarfile.open(path) as archive:
            contents = {
                Path(member.name).name: archive.extractfile(member).read()
                for member in archive
                if member.isfile()
            }
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read as a tar archive: {error}") from error

    def read(name: str) -> bytes:
        if name not in contents:
            raise DataError(f"{path} has no file {name}")
        return contents[name]

    return _read_all(path, read, SYNTHETIC_MARKER in contents)


def _candidates(given: Path | None) -> list[Path]:
    if given is not None:
        return [given]
    named = os.environ.get("CIFAR10_DIR")
    if named:
        return [Path(named)]
    keras_home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    return sorted((keras_home / "datasets").glob(f"{FOLDER}*"))


def load(given: Path | None) -> Cifar10:
    """Load the data set from `given`, else $CIFAR10_DIR, else Keras' cache; raise DataError."""
    candidates = _candidates(given)
    for place in candidates:
        for directory in (place, place / FOLDER):
            if (directory / TEST_FILE).is_file():
                return _load_directory(directory)
        for archive in (place, place / ARCHIVE):
            if archive.is_file():
                return _load_archive(archive)
    looked = ", ".join(str(place) for place in candidates) or "Keras' cache (~/.keras/datasets)"
    raise DataError(
        f"CIFAR-10 was not found in {looked}. Give --data or CIFAR10_DIR the directory "
        f"{FOLDER} or the file {ARCHIVE}; where there is no network, {GENERATOR} beside this "
        "script makes a data set of the same format for a trial."
    )
