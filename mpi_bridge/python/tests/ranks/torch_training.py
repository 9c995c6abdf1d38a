# SPDX-License-Identifier: Apache-2.0
"""N ranks with batch B train like one process with batch N*B (horovod.torch).

Breaks when a gradient is not averaged, is averaged twice, belongs to another parameter, or when
ranks disagree. Each rank computes the reference on all data by itself. The program runs without and
with TEST_GRADIENT_AS_BUCKET_VIEW=1.
"""

import functools
import os
import warnings

import check
import rows
import torch
from torch import nn

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS = 4, 8
# Whether gradients are reduced in memory that is kept from step to step.
AS_VIEWS = os.environ.get("TEST_GRADIENT_AS_BUCKET_VIEW") == "1"
wrap = functools.partial(hvd.DistributedOptimizer, gradient_as_bucket_view=AS_VIEWS)


class Branches(nn.Module):
    """`rare` gets a gradient from some inputs only, `never` from none."""

    def __init__(self):
        super().__init__()
        self.common = nn.Linear(5, 3)
        self.rare = nn.Parameter(torch.ones(3))
        self.never = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x, with_rare=True):
        y = self.common(x).tanh()
        return y * self.rare if with_rare else y


def make_model(seed=3):
    torch.manual_seed(seed)
    return Branches().double()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def data(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(SIZE * BATCH, 5, generator=generator, dtype=torch.float64)
    return x, x[:, :3].sin()


def my_part(tensor):
    return tensor[RANK * BATCH : (RANK + 1) * BATCH]


def reference(optimizer_of=sgd, steps=STEPS, clip=None):
    model = make_model()
    optimizer = optimizer_of(model)
    for step in range(steps):
        x, y = data(step)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


def compare(what, model, expected, tolerance=1e-12):
    for (name, actual), wanted in zip(model.named_parameters(), expected.parameters()):
        check.close(f"{what}: {name}", actual.detach(), wanted.detach(), tolerance)
        check.same_on_all_ranks(f"{what}: {name}", actual.detach().numpy())


def loss_of(model, step):
    x, y = data(step)
    return (model(my_part(x)) - my_part(y)).square().mean()


def distributed(optimizer_of=sgd, **options):
    model = make_model(seed=100 + RANK)
    with torch.no_grad():
        if RANK == 0:
            model.load_state_dict(make_model().state_dict())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = optimizer_of(model)
    wrapped = wrap(optimizer, named_parameters=model.named_parameters(), **options)
    return model, wrapped


def check_plain_steps():
    for optimizer_of in (sgd, lambda model: torch.optim.Adam(model.parameters(), lr=0.01)):
        for options in (
            {},
            {"gradient_predivide_factor": 2.0},
            {"backward_passes_per_step": 2},
        ):
            model, optimizer = distributed(optimizer_of, **options)
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            compare(f"{options}", model, reference(optimizer_of), 1e-10)
            check.equal("never stays without gradient", model.never.grad is None, True)


def check_sum_is_size_times_average():
    model, optimizer = distributed(op=hvd.Sum)
    for step in range(STEPS):
        optimizer.zero_grad()
        (loss_of(model, step) / SIZE).backward()
        optimizer.step()
    compare("op=Sum", model, reference())


def check_compressed():
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        model, optimizer = distributed(compression=compression)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
        compare(compression.__name__, model, reference(), 0.05)


def check_several_buckets():
    for limit in ("40", "0"):
        hvd.shutdown()
        os.environ["HOROVOD_FUSION_THRESHOLD"] = limit
        hvd.init()
        del os.environ["HOROVOD_FUSION_THRESHOLD"]
        model, optimizer = distributed()
        train(model, optimizer)
        compare(f"buckets of {limit} bytes", model, reference())
    hvd.shutdown()
    hvd.init()


def check_clipped_between_synchronize_and_step():
    model, optimizer = distributed()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        with optimizer.skip_synchronize():
            optimizer.step()
    compare("clipped", model, reference(clip=0.05))


def check_with_a_closure():
    model, optimizer = distributed()
    for step in range(STEPS):

        def closure(step=step):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            return loss

        optimizer.step(closure)
    compare("with a closure", model, reference())


def check_with_a_scheduler_made_before():
    model = make_model()
    plain = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, step_size=100)
    optimizer = wrap(plain)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        scheduler.step()
    compare("with a scheduler", model, reference())


def check_branch_taken_by_one_rank_only():
    model, optimizer = distributed()
    x = torch.ones(1, 5, dtype=torch.float64)
    optimizer.zero_grad()
    model(x, with_rare=RANK == 0).sum().backward()
    alone = make_model()
    alone(x).sum().backward()
    optimizer.synchronize()
    check.close("gradient of one rank", model.rare.grad, alone.rare.grad / SIZE, 1e-12)
    if SIZE > 1:
        with optimizer.skip_synchronize():
            optimizer.step()
        check.same_on_all_ranks("rare", model.rare.detach().numpy())


def check_reloaded_state_still_reduces():
    model, optimizer = distributed()
    for step in range(STEPS):
        if step == STEPS // 2:
            optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    compare("after load_state_dict", model, reference())


def train(model, optimizer, steps=STEPS, passes=1, **clearing):
    """Make steps, each with one backward for each of `passes` parts of the rank's batch."""
    for step in range(steps):
        optimizer.zero_grad(**clearing)
        x, y = data(step)
        for part in zip(my_part(x).chunk(passes), my_part(y).chunk(passes)):
            ((model(part[0]) - part[1]).square().mean() / passes).backward()
        optimizer.step()


def check_options_that_change_nothing_but_the_way():
    lists = lambda model: [[model.common.weight, model.rare], [model.common.bias]]  # noqa: E731
    variants = [
        ({"backward_passes_per_step": 2}, {"passes": 2}),
        ({"groups": 2}, {}),
        ({"groups": lists}, {}),
        ({"gradient_predivide_factor": float(SIZE)}, {}),
        ({"gradient_as_bucket_view": not AS_VIEWS}, {}),
        ({"sparse_as_dense": True}, {"set_to_none": False}),
        ({"process_set": hvd.global_process_set}, {"set_to_none": True}),
        ({"compression": OwnCompressor}, {}),
    ]
    for options, how in variants:
        model = make_model()
        if callable(options.get("groups")):
            options["groups"] = options["groups"](model)
        optimizer = wrap(sgd(model), model.named_parameters(), **options)
        train(model, optimizer, **how)
        compare(f"{sorted(options)}", model, reference(), 1e-10)


def check_a_script_may_keep_gradients():
    model, optimizer = distributed(gradient_as_bucket_view=False)
    kept = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        gradient = model.common.weight.grad
        kept.append((gradient, gradient.clone()))
        of_its_own = gradient.numel() * gradient.element_size()
        check.equal("memory", gradient.untyped_storage().nbytes(), of_its_own)
    for gradient, value in kept:
        check.equal("kept over the steps", gradient, value)
    compare("kept", model, reference())


def check_gradients_that_a_script_changes_while_they_travel():
    """The optimizer steps on reduced values, whatever tensor is the gradient by then."""
    if SIZE == 1:
        return
    for change in (lambda gradient: gradient.clone(), lambda gradient: None):
        for options in ({}, {"compression": hvd.Compression.fp16}, {"compression": OwnCompressor}):
            model, optimizer = distributed(**options)
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                if step:  # nothing travels before the first step
                    for parameter in (model.common.weight, model.rare):
                        parameter.grad = change(parameter.grad)
                optimizer.step()
            exact = options.get("compression") is not hvd.Compression.fp16
            compare(f"changed {options}", model, reference(), 1e-10 if exact else 0.05)


def check_clearing_and_averaged_weights():
    for set_to_none in (False, True):
        model, optimizer = distributed()
        averaged = torch.optim.swa_utils.AveragedModel(model)
        expected = make_model()
        alone = sgd(expected)
        expected_average = torch.optim.swa_utils.AveragedModel(expected)
        for step in range(STEPS):
            x, y = data(step)
            alone.zero_grad(set_to_none=set_to_none)
            (expected(x) - y).square().mean().backward()
            nn.utils.clip_grad_value_(expected.parameters(), 0.01)
            alone.step()
            expected_average.update_parameters(expected)
            # Clearing by the model goes past the optimizer.
            (optimizer if step % 2 else model).zero_grad(set_to_none=set_to_none)
            loss_of(model, step).backward()
            optimizer.synchronize()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
            with optimizer.skip_synchronize():
                optimizer.step()
            averaged.update_parameters(model)
        compare("weights", model, expected)
        compare("average of the weights", averaged, expected_average)


def check_several_backward_passes_of_one_graph():
    for set_to_none in (False, True):
        model, optimizer = distributed(backward_passes_per_step=3)
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = loss_of(model, step) / 3
            loss.backward(retain_graph=True)
            loss.backward(retain_graph=True)
            loss.backward()
            optimizer.step()
        compare("three passes of one graph", model, reference(), 1e-10)


def check_a_state_loaded_between_passes_counts_them_anew():
    model, optimizer = distributed(backward_passes_per_step=2)
    loss_of(model, 0).backward()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    train(model, optimizer, passes=2)
    compare("loaded between passes", model, reference(), 1e-10)


def check_no_rank_waits_in_a_hook():
    model, optimizer = distributed()
    for step in range(3):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        # One rank after the other: a hook that waited for the others would never return.
        for turn in range(SIZE):
            if turn == RANK:
                loss.backward()
            hvd.barrier()
        optimizer.step()
    compare("one rank after the other", model, reference(steps=3))


class CutOnRank1:
    """Lets the gradient of length 3 be shorter on rank 1."""

    is_cutting = False

    @classmethod
    def compress(cls, tensor):
        is_cut = cls.is_cutting and RANK == 1 and tensor.shape == (3,)
        return (tensor[:2] if is_cut else tensor).clone(), None

    @staticmethod
    def decompress(tensor, context):
        return tensor


def check_one_failed_gradient_leaves_no_other_behind():
    if SIZE == 1:
        return
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 2))
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1), compression=CutOnRank1)
    for step in range(3):
        CutOnRank1.is_cutting = step == 1
        optimizer.zero_grad()
        model(torch.full((1, 4), RANK + step + 1.0)).sum().backward()
        own = [parameter.grad.clone() for parameter in model.parameters()]
        if CutOnRank1.is_cutting:
            text = check.raises(hvd.HorovodInternalError, optimizer.synchronize)
            check.equal("it names the gradient", "gradient." in text, True)
        else:
            optimizer.synchronize()
        for parameter, gradient in zip(model.parameters(), own):
            if parameter.shape != (3,) or not CutOnRank1.is_cutting:
                check.equal("reduced", parameter.grad, hvd.allreduce(gradient))


class OwnCompressor:
    """A compressor that a script brings along."""

    @staticmethod
    def compress(tensor):
        return tensor.clone(), "context"

    @staticmethod
    def decompress(tensor, context):
        check.equal("context", context, "context")
        return tensor


def check_every_kind_of_optimizer():
    for optimizer_of in (
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        lambda model: torch.optim.AdamW(model.parameters(), lr=0.01),
        lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1),
        lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01),
        lambda model: torch.optim.NAdam(model.parameters(), lr=0.01),
    ):
        model = make_model()
        train(model, wrap(optimizer_of(model)))
        compare("kind", model, reference(optimizer_of), 1e-9)


def check_bfloat16_stays_within_its_error():
    def adam(model):
        return torch.optim.Adam(model.parameters(), lr=0.01)

    model, optimizer = distributed(adam, compression=hvd.Compression.bf16)
    train(model, optimizer)
    compare("bfloat16", model, reference(adam), 0.02)


def check_gradients_lie_side_by_side_after_the_first_step():
    model, optimizer = distributed(gradient_as_bucket_view=True)
    train(model, optimizer, steps=3)
    if SIZE == 1:
        return
    optimizer.zero_grad()
    loss_of(model, 0).backward()
    optimizer.synchronize()
    addresses = sorted(
        (p.grad.data_ptr(), p.grad.numel() * p.grad.element_size())
        for p in model.parameters()
        if p.grad is not None
    )
    check.equal("gradients", len(addresses), 3)
    for (first, length), (second, _) in zip(addresses, addresses[1:]):
        check.equal("no gap", first + length, second)
    kept = model.common.weight.grad
    hvd.shutdown()
    check.equal("readable after shutdown", bool(torch.isfinite(kept).all()), True)
    hvd.init()
    with optimizer.skip_synchronize():
        optimizer.step()
    train(model, optimizer, steps=2)
    check.same_on_all_ranks("after init again", model.common.weight.detach().numpy())


def check_a_caller_may_replace_gradients():
    model, optimizer = distributed()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.synchronize()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        with optimizer.skip_synchronize():
            optimizer.step()
        for parameter in model.parameters():
            if step % 2:
                parameter.grad = None
    compare("replaced", model, reference())


def check_more_passes_than_announced_are_an_error():
    if SIZE == 1:
        return
    model, optimizer = distributed()
    loss_of(model, 0).backward()
    check.raises(AssertionError, optimizer.zero_grad)
    check.raises(AssertionError, lambda: loss_of(model, 0).backward())
    optimizer.synchronize()
    optimizer.zero_grad()
    optimizer.set_backward_passes_per_step(2)
    loss_of(model, 0).backward()
    loss_of(model, 0).backward()
    optimizer.synchronize()


def check_fewer_passes_than_announced_are_reduced_at_the_step():
    model, optimizer = distributed(backward_passes_per_step=3)
    train(model, optimizer)
    compare("fewer passes", model, reference())


class Words(nn.Module):
    """An embedding whose gradient is sparse, and a layer whose is not."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4, sparse=True)
        self.output = nn.Linear(4, 2)

    def forward(self, x):
        return self.output(self.words(x).mean(1))


def words(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, 9, (SIZE * BATCH, 3), generator=generator)


def check_sparse_as_dense_leaves_a_sparse_gradient():
    def make():
        torch.manual_seed(1)
        return nn.Embedding(9, 4, sparse=True).double()

    def adam(model):
        return torch.optim.SparseAdam(list(model.parameters()), lr=0.1)

    expected = make()
    alone = adam(expected)
    for options in ({}, {"compression": hvd.Compression.bf16}, {"backward_passes_per_step": 2}):
        model = make()
        optimizer = wrap(adam(model), sparse_as_dense=True, **options)
        for step in range(4):
            optimizer.zero_grad()
            if step != 2 or RANK != 0 or SIZE == 1:  # a rank that has no gradient gets the others'
                model(my_part(words(step))).square().mean().backward()
            seen = model.weight.grad
            optimizer.synchronize()
            check.equal("layout", model.weight.grad.is_sparse, True)
            check.equal("rows", model.weight.grad.sparse_dim(), 1)
            if seen is not None:
                check.equal("the same tensor", model.weight.grad is seen, True)
            with optimizer.skip_synchronize():
                optimizer.step()
        check.same_on_all_ranks("weights", model.weight.detach().numpy())
    model = make()
    optimizer = wrap(adam(model), sparse_as_dense=True)
    for step in range(4):
        for each, its_model, pick in (
            (optimizer, model, my_part),
            (alone, expected, lambda x: x),
        ):
            each.zero_grad()
            its_model(pick(words(step))).square().mean().backward()
            each.step()
    compare("SparseAdam", model, expected)


def check_names_of_the_parameters():
    model = make_model()
    names = {parameter: name for name, parameter in model.named_parameters()}
    for op in (hvd.Average, hvd.Adasum):
        some = torch.optim.SGD([model.common.weight, model.rare], lr=0.1)
        optimizer = wrap(some, model.named_parameters(), op=op)
        check.equal("names", optimizer._parameter_names == names, True)
    optimizer = wrap(torch.optim.SGD([model.common.weight], lr=0.1))
    check.equal("without names", len(optimizer._parameter_names), 1)
    optimizer.add_param_group({"params": [model.rare]})
    check.equal("added later", model.rare in optimizer._parameter_names, True)


def check_a_second_reduction_is_warned_of():
    model, optimizer = distributed()
    text = (
        r"optimizer\.step\(\) called without optimizer\.skip_synchronize\(\) context after "
        r"optimizer\.synchronize\(\)\. "
    )
    loss_of(model, 0).backward()
    optimizer.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=text)
        check.raises(UserWarning, optimizer.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()


def check_sparse_gradients():

    def make():
        torch.manual_seed(1)
        return Words().double()

    def steps(model, optimizer, pick):
        for step in range(4):
            optimizer.zero_grad()
            model(pick(words(step))).square().mean().backward()
            optimizer.step()

    expected = make()
    steps(expected, torch.optim.SGD(expected.parameters(), lr=0.5), lambda x: x)
    for options in ({}, {"sparse_as_dense": True}):
        model = make()
        plain = torch.optim.SGD(model.parameters(), lr=0.5)
        optimizer = wrap(plain, model.named_parameters(), **options)
        steps(model, optimizer, my_part)
        compare(f"sparse {options}", model, expected)


def check_a_model_in_channels_last():
    def make():
        torch.manual_seed(2)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Flatten())
        return model.double().to(memory_format=torch.channels_last)

    def steps(model, optimizer, pick):
        for step in range(4):
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(SIZE * 2, 3, 6, 6, generator=generator, dtype=torch.float64)
            optimizer.zero_grad()
            pick(model(x.to(memory_format=torch.channels_last))).square().mean().backward()
            optimizer.step()

    expected = make()
    steps(expected, torch.optim.SGD(expected.parameters(), lr=0.1), lambda y: y)
    model = make()
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1))
    steps(model, optimizer, lambda y: y[RANK * 2 : RANK * 2 + 2])
    compare("channels last", model, expected)


def check_a_process_set_trains_by_itself():
    if SIZE == 1:
        return
    first = hvd.add_process_set([0])
    rest = hvd.add_process_set(range(1, SIZE))
    mine = first if RANK == 0 else rest
    for process_set in (first, rest):
        model = make_model()
        optimizer = wrap(sgd(model), process_set=process_set)
        if process_set is not mine:
            continue
        train(model, optimizer)
        everyone = hvd.allgather(model.common.weight.detach()[None], process_set=process_set)
        for other in everyone:
            check.equal("within the set", other, everyone[0])
    check.equal("remove", hvd.remove_process_set(rest), True)
    check.equal("remove", hvd.remove_process_set(first), True)


def check_a_group_of_parameters_added_later():
    model = make_model()
    plain = torch.optim.SGD([model.common.weight, model.common.bias], lr=0.1)
    optimizer = wrap(plain)
    train(model, optimizer, steps=2)
    optimizer.add_param_group({"params": [model.rare], "lr": 0.01})
    train(model, optimizer, steps=3)
    for name, parameter in model.named_parameters():
        check.same_on_all_ranks(name, parameter.detach().numpy())
    check.equal("it has moved", bool((model.rare != 1).any()), True)


def check_ranks_with_fewer_batches_join():
    model, optimizer = distributed()
    for step in range(RANK + 1):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    check.equal("last", hvd.join(), SIZE - 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=SIZE - 1)


def check_two_optimizers_and_a_model_wrapped_again():
    first, second = make_model(), make_model(seed=4)
    one = wrap(sgd(first), first.named_parameters())
    train(first, one, steps=2)
    del one
    one = wrap(sgd(first), [(f"one.{n}", p) for n, p in first.named_parameters()])
    two = wrap(sgd(second), [(f"two.{n}", p) for n, p in second.named_parameters()])
    for step in range(4):
        one.zero_grad()
        two.zero_grad()
        (loss_of(first, step) + loss_of(second, step)).backward()
        one.step()
        two.step()
    for model in (first, second):
        check.same_on_all_ranks("weights", model.common.weight.detach().numpy())


def check_adasum_optimizer():
    model, optimizer = distributed(op=hvd.Adasum)
    alone = make_model()
    plain = sgd(alone)
    same = data(0)[0][:BATCH]
    for _ in range(3):
        # All ranks see the same data, so the combined step is that of one.
        for each, its_model in ((optimizer, model), (plain, alone)):
            each.zero_grad()
            its_model(same).square().mean().backward()
            each.step()
    compare("equal steps", model, alone, 1e-10)
    train(model, optimizer, steps=2)
    check.same_on_all_ranks("weights", model.common.weight.detach().numpy())
    check.raises(AssertionError, lambda: optimizer.skip_synchronize().__enter__())


def check_models_that_differ_are_an_error():
    if SIZE == 1:
        return
    model = make_model()
    names = [(n + "!" if RANK == 1 else n, p) for n, p in model.named_parameters()]
    wrap(sgd(model), names)
    optimizer = wrap(sgd(model), names)
    loss_of(model, 0).backward()
    text = check.raises(hvd.HorovodInternalError, optimizer.step)
    check.equal("says what differs", "DistributedOptimizer" in text, True)
    check.equal("nothing is in flight", optimizer._reducer.is_in_flight, False)


def check_wrong_use_is_refused():
    model = make_model()
    names = list(model.named_parameters())
    check.raises(ValueError, lambda: wrap(sgd(model), named_parameters=names[:1]))
    check.raises(ValueError, lambda: wrap(sgd(model), named_parameters=names + names[:1]))
    check.raises(ValueError, lambda: wrap(sgd(model), groups=-1))
    check.raises(ValueError, lambda: wrap(sgd(model), groups=[names[0][1:], names[0][1:]]))
    check.raises(ValueError, lambda: wrap(sgd(model), backward_passes_per_step=0))
    check.raises(ValueError, lambda: wrap(sgd(model), gradient_predivide_factor=2.0, op=hvd.Sum))
    check.raises(TypeError, lambda: wrap(sgd(model), compression=None))
    check.raises(NotImplementedError, lambda: wrap(torch.optim.LBFGS(model.parameters())))
    check.raises(ValueError, lambda: wrap(sgd(model), op=hvd.Max))


if __name__ == "__main__":
    rows.run(globals())
