# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts in an elastic state, a number every half second, until the file STOP is there.

Prints "count N on R ranks" before each commit, and what it hears of changing hosts.
"""

import sys
import time
from pathlib import Path

from horovod.common import basics
from horovod.common.elastic import HostsUpdatedInterrupt, ObjectState, run_fn
from horovod.common.host_updates import of_rank_0
from mpi_bridge.objects import broadcast_object


def say(text: str) -> None:
    if basics.rank() == 0:
        print(text, flush=True)


def count(state: ObjectState) -> None:
    # All ranks must see the end at the same number.
    while not of_rank_0(int(Path(sys.argv[1]).exists())):
        state.number += 1
        say(f"count {state.number} on {basics.size()} ranks")
        time.sleep(0.5)
        try:
            state.commit()
        except HostsUpdatedInterrupt as interrupt:
            say(f"interrupted at {state.number}, skip_sync={interrupt.skip_sync}")
            raise


def reset() -> None:
    basics.shutdown()
    basics.init()


basics.init()
state = ObjectState(broadcast_object, basics.rank, number=0)
state.register_reset_callbacks([lambda: say(f"reset to {basics.size()} ranks")])
run_fn(count, reset)(state)
say(f"ended at {state.number}")
