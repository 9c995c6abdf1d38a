# SPDX-License-Identifier: Apache-2.0
"""Horovod's exception names."""

from mpi_bridge.errors import MpiBridgeError as HorovodInternalError

__all__ = ["HorovodInternalError"]
