# SPDX-License-Identifier: Apache-2.0
"""The same as horovod.keras, for scripts that use tf.keras (which is Keras 3 today)."""

from ...keras import *  # noqa: F403
from ...keras import __all__ as __all__
from . import callbacks as callbacks
from . import elastic as elastic
