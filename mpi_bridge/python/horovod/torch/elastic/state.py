# SPDX-License-Identifier: Apache-2.0
"""Elastic state of PyTorch models, optimizers, schedulers and samplers."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch

from ...common import basics
from ...common.elastic import ObjectState
from ...common.live_objects import has_state_dict
from ..functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    broadcast_state,
)
from .sampler import ElasticSampler


class TorchState(ObjectState):
    """State of a PyTorch training: TorchState(model=model, optimizer=optimizer, epoch=0, ...).

    Keyword arguments that have a state_dict() and a load_state_dict() are saved and synchronised by
    them, and stay the objects that they are: modules, optimizers, learning-rate schedulers,
    GradScaler, AveragedModel, ElasticSampler and others. Any other value must be picklable, and is
    copied. TypeError is raised for a value that holds such an object, because the copy would not be
    the one that trains.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        named = {"model": model, "optimizer": optimizer, **kwargs}
        self._handlers: dict[str, _Handler] = {}
        plain = {}
        for name, value in named.items():
            kind = _handler_for(value)
            if kind is not None:
                self._handlers[name] = kind(value)
            else:
                plain[name] = value
        self._require_optimizers_of_schedulers()
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **plain)
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)

    def __setattr__(self, name: str, value: Any) -> None:
        # What replaces a model or a number is kept from now on, whichever of the two it is.
        handlers, plain = (self.__dict__.get(each, {}) for each in ("_handlers", "_saved_state"))
        if name in handlers or name in plain:
            kind = _handler_for(value)
            if kind is not None:
                plain.pop(name, None)
                handlers[name] = kind(value)
            elif name in handlers:
                del handlers[name]
                plain[name] = value
        super().__setattr__(name, value)

    def save(self) -> None:
        """Remember the present state in memory."""
        self._require_optimizers_of_schedulers()
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Go back to the state of the last save()."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Take rank 0's state, and save it."""
        self._require_optimizers_of_schedulers()
        for handler in self._handlers.values():
            handler.sync()
            handler.save()
        super().sync()

    def committed(self) -> Any:
        """Return the saved state; collective if there is a sampler."""
        handled = {name: handler.committed() for name, handler in self._handlers.items()}
        return {"handled": handled, "plain": super().committed()}

    def adopt(self, committed: Any) -> None:
        """Take over the value of committed()."""
        for name, saved in committed["handled"].items():
            if name in self._handlers:
                self._handlers[name].saved = saved
                self._handlers[name].restore()
        # An older version may have kept a plain value of what has a state_dict() here.
        plain = committed["plain"].items()
        super().adopt({name: value for name, value in plain if name not in self._handlers})

    def reset(self) -> None:
        """Divide the samplers' data anew."""
        for handler in self._handlers.values():
            handler.reset()

    def _require_optimizers_of_schedulers(self) -> None:
        """Raise TypeError if a scheduler drives an optimizer whose state is not kept here."""
        values = {name: handler.value for name, handler in self._handlers.items()}
        kept = [_wrapped_in(v) for v in values.values() if isinstance(v, torch.optim.Optimizer)]
        for name, value in values.items():
            driven = getattr(value, "optimizer", None)
            if not isinstance(driven, torch.optim.Optimizer):
                continue
            if not any(_wrapped_in(driven) is each for each in kept):
                raise TypeError(
                    f'elastic state: "{name}" ({type(value).__name__}) drives an optimizer that '
                    "is not part of the state, so that its learning rate would not be kept. Give "
                    f"TorchState this optimizer, or make {name} anew for state.optimizer."
                )


class _Handler:
    """Saves, restores and synchronises one value by its state_dict()."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        self.saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        # Copied, because load_state_dict may keep its argument.
        self.value.load_state_dict(copy.deepcopy(self.saved))

    def committed(self) -> Any:
        return self.saved

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt to a changed set of ranks."""


class _ModelHandler(_Handler):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class _OptimizerHandler(_Handler):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class _StateDictHandler(_Handler):
    """Schedulers, scalers and whatever else has a state_dict()."""

    def sync(self) -> None:
        received = broadcast_state(self.value.state_dict(), root_rank=0)
        if basics.rank() != 0:
            self.value.load_state_dict(received)


class _SamplerHandler(_Handler):
    """Combines what all ranks know to be processed: record_indices() tells only one of them."""

    def committed(self) -> Any:
        # What a rank that is lost later has processed stays known to the others.
        self.saved["processed_indices"] = _union(self.saved["processed_indices"])
        return self.saved

    def sync(self) -> None:
        state = self.value.state_dict()
        state["processed_indices"] = _union(state["processed_indices"])
        self.value.load_state_dict(broadcast_object(state, root_rank=0))

    def reset(self) -> None:
        self.value.reset()


def _union(mine: set[int]) -> set[int]:
    return set().union(*allgather_object(mine))


def _handler_for(value: Any) -> Callable[[Any], _Handler] | None:
    if isinstance(value, torch.nn.Module):
        return _ModelHandler
    if isinstance(value, torch.optim.Optimizer):
        return _OptimizerHandler
    if isinstance(value, ElasticSampler):
        return _SamplerHandler
    if has_state_dict(value):
        return _StateDictHandler
    return None


def _wrapped_in(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return the user's optimizer, from which DistributedOptimizer may have made this one."""
    return getattr(optimizer, "_wrapped", optimizer)
