# SPDX-License-Identifier: Apache-2.0
"""The common part of horovod.keras and horovod.tensorflow, which imports neither of them."""
