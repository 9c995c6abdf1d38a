#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a data set in the file format of CIFAR-10, for trials where there is no network.

The images are not photographs: each class has a direction of stripes and a colour, hidden in noise.
A file named SYNTHETIC beside the data says so, and the training script repeats it.
"""

from __future__ import annotations

import argparse
import io
import pickle
import struct
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from cifar10_files import FOLDER, SIDE, SYNTHETIC_MARKER, TEST_FILE, TRAINING_FILES

CLASS_NAMES = [f"stripes_{number * 18:03d}_degrees" for number in range(10)]

MARKER_TEXT = """\
SYNTHETIC data in the file format of CIFAR-10, made by make_synthetic_cifar10.py.
These are coloured stripes in noise, not the photographs of CIFAR-10; an accuracy reached on them
says nothing about CIFAR-10.
"""


class _PickleOfPython2(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, as in the original files."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def _save_bytes(self, value: bytes) -> None:
        if len(value) < 256:
            self.write(pickle.SHORT_BINSTRING + struct.pack("<B", len(value)) + value)
        else:
            self.write(pickle.BINSTRING + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch[bytes] = _save_bytes

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if getattr(obj, "__name__", "") == "_reconstruct":
            # numpy 2 moved it; every numpy finds it under the old name.
            self.write(pickle.GLOBAL + b"numpy.core.multiarray\n_reconstruct\n")
            self.memoize(obj)
        else:
            super().save_global(obj, name)

    # The base class calls these through its table, not as methods.
    dispatch[type(print)] = save_global
    dispatch[type(_save_bytes)] = save_global


def _pickled(value: Any) -> bytes:
    stream = io.BytesIO()
    _PickleOfPython2(stream, protocol=2).dump(value)
    return stream.getvalue()


def make_images(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return one image for each label, as rows of 3072 bytes."""
    count = len(labels)
    angle = (labels * np.pi / 10 + random.normal(0, 0.05, count))[:, None, None]
    phase = random.uniform(0, 2 * np.pi, (count, 1, 1))
    frequency = random.uniform(0.6, 0.9, (count, 1, 1))
    row, column = np.mgrid[0:SIDE, 0:SIDE]
    stripes = np.sin(frequency * (column * np.cos(angle) + row * np.sin(angle)) + phase)
    # Three cosines, a third of a turn apart: a different hue for each class.
    thirds = 2 * np.pi * np.arange(3) / 3
    hue = np.cos(2 * np.pi * labels[:, None] / 10 + thirds)[:, :, None, None]
    contrast = random.uniform(20, 45, (count, 1, 1, 1))
    brightness = random.uniform(100, 150, (count, 1, 1, 1))
    noise = random.normal(0, 25, (count, 3, SIDE, SIDE))
    images = brightness + contrast * stripes[:, None] + 25 * hue + noise
    return np.clip(images, 0, 255).astype(np.uint8).reshape(count, -1)


def make_batch(title: str, count: int, random: np.random.Generator) -> bytes:
    """Return the content of one batch file."""
    labels = random.permutation(np.arange(count) % 10)
    names = [f"{CLASS_NAMES[label]}_{i:06d}.png".encode() for i, label in enumerate(labels)]
    return _pickled(
        {
            b"batch_label": title.encode(),
            b"labels": [int(label) for label in labels],
            b"data": make_images(labels, random),
            b"filenames": names,
        }
    )


def write_data_set(directory: Path, train_count: int, test_count: int, seed: int) -> None:
    """Write all files of the data set into `directory`."""
    random = np.random.default_rng(seed)
    directory.mkdir(parents=True, exist_ok=True)
    # First, so that no part of it is ever without its label.
    (directory / SYNTHETIC_MARKER).write_text(MARKER_TEXT)
    per_file = train_count // len(TRAINING_FILES)
    for number, name in enumerate(TRAINING_FILES, start=1):
        title = f"training batch {number} of {len(TRAINING_FILES)}"
        (directory / name).write_bytes(make_batch(title, per_file, random))
    (directory / TEST_FILE).write_bytes(make_batch("testing batch 1 of 1", test_count, random))
    meta = {
        b"num_cases_per_batch": per_file,
        b"label_names": [name.encode() for name in CLASS_NAMES],
        b"num_vis": 3 * SIDE * SIDE,
    }
    (directory / "batches.meta").write_bytes(_pickled(meta))


def main() -> int:
    """Parse the command line and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help=f"where to make the folder {FOLDER}")
    parser.add_argument("--train", type=int, default=50000, help="images (default %(default)s)")
    parser.add_argument("--test", type=int, default=10000, help="images (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    options = parser.parse_args()
    if options.train < len(TRAINING_FILES) or options.test < 1:
        parser.error(f"--train must be at least {len(TRAINING_FILES)}, --test at least 1")
    target = options.directory / FOLDER
    write_data_set(target, options.train, options.test, options.seed)
    print(f"SYNTHETIC CIFAR-10-format images: {options.train} + {options.test} in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
