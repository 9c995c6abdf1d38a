# SPDX-License-Identifier: Apache-2.0
"""Gradients through horovod.torch's operations, against values computed here.

Breaks when the backward of an operation is not the transpose of its forward on all ranks.
"""

import check
import numpy as np
import rows
import torch
from torch_values import MEAN, RANK, SIZE

import horovod.torch as hvd


def check_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (hvd.allreduce(x, op=hvd.Sum, name="named") * (RANK + 1.0)).sum().backward()
    check.equal("of a sum", x.grad, [SIZE * (MEAN + 1)] * 2)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (hvd.allreduce(x, prescale_factor=3.0) * (RANK + 1.0)).sum().backward()
    check.close("of a scaled average", x.grad, [3.0 * (MEAN + 1)] * 2, 1e-6)
    xs = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    first, second = hvd.grouped_allreduce(xs, op=hvd.Sum)
    (first.sum() + 2 * second.sum()).backward()
    check.equal("of a group", xs[0].grad, [SIZE] * 2)
    check.equal("of a group", xs[1].grad, [2 * SIZE] * 3)
    x = torch.full((RANK + 1, 1), 1.0, requires_grad=True)
    (hvd.allgather(x) * 3.0).sum().backward()
    check.equal("of allgather", x.grad, np.full((RANK + 1, 1), 3.0))
    x = torch.ones(2, requires_grad=True)
    (hvd.broadcast(x, SIZE - 1) * (RANK + 1.0)).sum().backward()
    check.equal("of broadcast", x.grad, [MEAN + 1 if RANK == SIZE - 1 else 0.0] * 2)
    splits = [r + 1 for r in range(SIZE)]
    x = torch.ones(sum(splits), requires_grad=True)
    received, _ = hvd.alltoall(x, splits)
    (received * (RANK + 1.0)).sum().backward()
    check.equal("of alltoall", x.grad, np.repeat(np.arange(SIZE) + 1.0, splits))
    x = torch.ones(SIZE, requires_grad=True)
    (hvd.reducescatter(x, op=hvd.Sum) * (RANK + 1.0)).sum().backward()
    check.equal("of reducescatter", x.grad, (np.arange(SIZE) + 1.0) * SIZE)
    with torch.no_grad():
        check.equal("none without autograd", hvd.allreduce(x).requires_grad, False)


def check_an_operation_without_a_gradient_says_so():
    # A result that autograd takes for a constant would leave this part of the gradient out.
    for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
        x = torch.ones(2, requires_grad=True)
        (in_group,) = hvd.grouped_allreduce([x], op=op)
        for result in (hvd.allreduce(x, op=op), in_group):
            check.equal(f"{op.name}", result.detach(), [1.0, 1.0])
            loss = (x + result).sum()
            check.raises(NotImplementedError, loss.backward)


def check_sync_batch_norm():
    def batch(rank):
        generator = torch.Generator().manual_seed(rank)
        return torch.randn(rank + 1, 3, 2, generator=generator, dtype=torch.float64) + 5

    for affine, momentum in ((True, 0.1), (False, None)):
        whole = torch.nn.BatchNorm1d(3, affine=affine, momentum=momentum).double()
        ours = hvd.SyncBatchNorm(3, affine=affine, momentum=momentum).double()
        first = sum(r + 1 for r in range(RANK))
        rows_of_mine = slice(first, first + RANK + 1)
        for _ in range(2):
            everything = torch.cat([batch(r) for r in range(SIZE)]).requires_grad_()
            part = batch(RANK).requires_grad_()
            expected, result = whole(everything), ours(part)
            check.close("output", result.detach(), expected.detach()[rows_of_mine], 1e-10)
            expected.pow(3).sum().backward()
            result.pow(3).sum().backward()
            check.close("gradient", part.grad, everything.grad[rows_of_mine], 1e-10)
        check.close("running mean", ours.running_mean, whole.running_mean, 1e-12)
        check.close("running variance", ours.running_var, whole.running_var, 1e-12)
        if affine:
            total = hvd.allreduce(ours.weight.grad, op=hvd.Sum)
            check.close("gradient of the weight", total, whole.weight.grad, 1e-9)
            total = hvd.allreduce(ours.bias.grad, op=hvd.Sum)
            check.close("gradient of the bias", total, whole.bias.grad, 1e-9)
        ours.eval()
        whole.eval()
        check.close("evaluation", ours(batch(0)).detach(), whole(batch(0)).detach(), 1e-10)


def check_sync_batch_norm_of_short_numbers():
    """With a scaled loss, as of torch.amp, the bias' gradient exceeds the range of the input."""
    for dtype in (torch.float16, torch.bfloat16):
        layer, whole = hvd.SyncBatchNorm(2), torch.nn.BatchNorm1d(2)
        upstream = torch.full((500, 2), 257.0, dtype=dtype)
        for each in (layer, whole):
            each(torch.arange(1000.0).view(500, 2).to(dtype)).backward(upstream)
        check.equal("type", str(layer.bias.grad.dtype), "torch.float32")
        check.close(f"gradient of the bias, {dtype}", layer.bias.grad, whole.bias.grad, 1e-3)


if __name__ == "__main__":
    rows.run(globals())
