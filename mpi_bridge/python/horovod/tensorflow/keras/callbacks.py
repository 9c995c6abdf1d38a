# SPDX-License-Identifier: Apache-2.0
"""Callbacks for model.fit()."""

from ...keras.callbacks import *  # noqa: F403
from ...keras.callbacks import __all__ as __all__
