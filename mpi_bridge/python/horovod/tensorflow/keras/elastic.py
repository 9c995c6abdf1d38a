# SPDX-License-Identifier: Apache-2.0
"""Elastic training with Keras: hvd.elastic.run, its state and its callbacks."""

from ...keras.elastic import *  # noqa: F403
from ...keras.elastic import __all__ as __all__
