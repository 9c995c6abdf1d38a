# SPDX-License-Identifier: Apache-2.0
"""Horovod's exceptions."""

from mpi_bridge.errors import MpiBridgeError as HorovodInternalError

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt"]


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818 - Horovod's name
    """The set of ranks is to change, and nothing is lost: continue from the present state.

    check_host_updates() and commit() raise it on all ranks. With `skip_sync`, hosts are only
    removed, so the ranks that stay have equal states. A script may raise it, too: its ranks then
    meet again in the same step.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job are to change")
        self.skip_sync = skip_sync
