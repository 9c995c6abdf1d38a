# SPDX-License-Identifier: Apache-2.0
"""Ranks that disagree about shapes or parameters get an error that names the others.

Breaks when a disagreement hangs or goes unnoticed. With one rank there is nothing to disagree on.
"""

import check
import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
if SIZE > 1:
    odd = RANK == SIZE - 1
    text = check.raises(
        hvd.HorovodInternalError, lambda: hvd.allgather(torch.zeros(2, 4 if odd else 3))
    )
    check.equal("it names what differs", "shape (4,)" in text or "shape (3,)" in text, True)

    names = ["weight", "bias"] if odd else ["bias", "weight"]
    tensors = [(name, torch.zeros(3)) for name in names]
    text = check.raises(hvd.HorovodInternalError, lambda: hvd.broadcast_parameters(tensors, 0))
    check.equal("it names a rank", f"ranks [{SIZE - 1}" in text or odd, True)
check.passed()
