# SPDX-License-Identifier: Apache-2.0
"""Makes any Keras optimizer distributed: it reduces the gradients before it applies them.

In Keras 3 all ways of applying gradients lead to optimizer.apply(gradients, variables), which the
subclass made here overrides. On JAX it is called while the step is compiled.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import keras

from ..common.unsupported import not_supported
from . import replicas
from .aggregation import Aggregation
from .gradient_settings import GradientSettings
from .local_gradients import LocalVariables


class Distribution:
    """What a distributed optimizer has in addition to the user's one."""

    def __init__(
        self,
        settings: GradientSettings,
        backward_passes_per_step: int,
        average_aggregated_gradients: bool,
        scale_local_gradients: bool,
    ) -> None:
        backend = _backend()
        self._settings = settings
        self._reduction = backend.GradientReduction("DistributedOptimizer", settings)
        self._divided = backend.divided
        self._dense = backend.dense if settings.sparse_as_dense else list
        self.local = LocalVariables(scale_local_gradients)
        self.aggregation = Aggregation(backward_passes_per_step, average_aggregated_gradients)

    def apply(
        self,
        optimizer: Any,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        apply: Callable[[Sequence[Any]], None],
    ) -> None:
        """Collective: add up, reduce and apply, as the options say."""
        self.aggregation.apply(
            optimizer,
            self._dense(gradients),
            variables,
            lambda own: self.reduced(own, variables),
            apply,
        )

    def begin_step(self) -> None:
        """Be told that the backward pass of Keras' training step is next."""
        if keras.backend.backend() == "torch":
            self._reduction.begin_step()

    def compare_replicas(
        self, gradients: Sequence[Any], variables: Sequence[Any], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Collective: let JAX compare the variables; the others do it when they reduce."""
        is_jax = keras.backend.backend() == "jax"
        if not (is_jax and replicas.is_on() and self._settings.is_needed()):
            return gradients
        return _backend().compare_replicas(
            "DistributedOptimizer",
            *self.local.without(variables, values),
            gradients,
            self._settings.process_set,
        )

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Collective: return the gradients to apply."""
        return self.local.reduce_others(
            gradients,
            variables,
            self._reduction,
            lambda gradient: self._divided(gradient, self._settings.process_set),
        )


def _backend() -> Any:
    name = keras.backend.backend()
    if name == "tensorflow":
        from ..tensorflow import gradients as backend
    elif name == "torch":
        from . import reduction_torch as backend
    elif name == "jax":
        from . import reduction_jax as backend
    else:
        raise not_supported(
            f"the Keras backend {name!r}", "set KERAS_BACKEND to tensorflow, torch or jax"
        )
    return backend


class DistributedMixin:
    """Precedes the user's optimizer class among the bases of a distributed optimizer's class."""

    # Set by distributed_class() for all optimizers that from_config() makes.
    _make_distribution: Callable[[], Distribution]
    # None during construction, and if another optimizer around this one reduces.
    _distribution: Distribution | None = None
    # What a LossScaleOptimizer around this one has taken over, and whether it is applying now.
    _handed_on: Distribution | None = None
    _is_inside_wrapper = False

    @classmethod
    def from_config(cls, *args: Any, **kwargs: Any) -> Any:
        """Return an optimizer that reduces gradients with the same options."""
        made = super().from_config(*args, **kwargs)
        # Keras tracks attributes of an optimizer, to save and to name them; this one is not a
        # state.
        object.__setattr__(made, "_distribution", cls._make_distribution())
        return made

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Collective: reduce the gradients over all ranks, then apply them."""
        grads = list(grads)
        if self._distribution is None or not grads:
            self._require_wrapper()
            super().apply(grads, trainable_variables)
            return
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if not self.built:
                with keras.name_scope(self.name):
                    self.build(trainable_variables)
                self.built = True
        self._distribution.apply(
            self,
            grads,
            trainable_variables or self._trainable_variables,
            lambda reduced: self._apply_reduced(reduced, trainable_variables),
        )

    def _apply_reduced(self, grads: Sequence[Any], trainable_variables: Any) -> None:
        with _inside_wrapper(self):
            super().apply(grads, trainable_variables)

    def _require_wrapper(self) -> None:
        """Raise an error rather than apply gradients that nobody has reduced."""
        if self._handed_on is not None and not self._is_inside_wrapper:
            raise RuntimeError(
                "the LossScaleOptimizer around this optimizer reduces its gradients; to use the "
                "optimizer without it, make another one with DistributedOptimizer()"
            )

    def scale_loss(self, loss: Any) -> Any:
        """Scale the loss; Keras' training steps call this before their backward pass."""
        if self._distribution is not None:
            self._distribution.begin_step()
        return super().scale_loss(loss)

    def stateless_apply(
        self, optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        """Collective: do the same on JAX, as a function of all state."""
        if self._distribution is not None:
            grads = self._distribution.compare_replicas(
                list(grads), self._trainable_variables, trainable_variables
            )
        # A plain optimizer calls apply() from here; one that scales the loss does not.
        if self._distribution is not None and scales_loss(self):
            if self._distribution.aggregation.is_on:
                raise not_supported(
                    "backward_passes_per_step with a LossScaleOptimizer on JAX",
                    "pass gradient_accumulation_steps to the inner optimizer",
                )
            grads = self._distribution.reduced(list(grads), self._trainable_variables)
        if self._distribution is None:
            self._require_wrapper()
        with _inside_wrapper(self):
            return super().stateless_apply(optimizer_variables, grads, trainable_variables)

    def build(self, variables: Sequence[Any]) -> None:
        """Make the optimizer's variables, and those in which gradients are added up."""
        super().build(variables)
        if self._distribution is not None:
            self._distribution.aggregation.build(self, variables)

    def register_local_var(self, variable: Any) -> None:
        """Apply the gradient of this variable as it is on this rank."""
        if self._distribution is not None:
            self._distribution.local.add([variable])

    def own_variables(self) -> list[Any]:
        """Return the variables that the user's optimizer would have."""
        if self._distribution is None:
            return list(self.variables)
        return self._distribution.aggregation.others(self)

    def save_own_variables(self, store: Any) -> None:
        """Save what the user's optimizer would save, so that a plain one can load it."""
        for number, variable in enumerate(self.own_variables()):
            store[str(number)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Load what save_own_variables() of this or of the user's optimizer has saved."""
        variables = self.own_variables()
        if len(store.keys()) != len(variables):
            super().load_own_variables(store)  # it warns, and leaves everything as it is
            return
        for number, variable in enumerate(variables):
            variable.assign(store[str(number)])


def scales_loss(optimizer: Any) -> bool:
    """Tell whether this is a LossScaleOptimizer, which wraps another optimizer."""
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


@functools.cache
def _watch_loss_scaling() -> None:
    """Make every LossScaleOptimizer reduce in place of a distributed optimizer that it wraps.

    With the policy mixed_float16, model.compile() wraps the optimizer by itself, and no method of
    the inner optimizer is called on that occasion. So the wrapper's constructor is extended.
    """
    base = keras.optimizers.LossScaleOptimizer
    construct = base.__init__

    @functools.wraps(construct)
    def construct_and_reduce(self: Any, inner_optimizer: Any, *args: Any, **options: Any) -> None:
        construct(self, inner_optimizer, *args, **options)
        if isinstance(inner_optimizer, DistributedMixin):
            _let_reduce(self, inner_optimizer)

    base.__init__ = construct_and_reduce


def _let_reduce(wrapper: Any, inner: DistributedMixin) -> None:
    """Let the optimizer around a distributed one reduce in its place.

    A LossScaleOptimizer skips a step if a gradient is not finite. It has to check the reduced
    gradients, or some ranks would wait in a reduction that the others skip. A script may compile a
    model again, so that another wrapper takes over.
    """
    distribution = inner._distribution or inner._handed_on
    if distribution is None:
        return
    wrapper.__class__ = distributed_class(type(wrapper), inner._make_distribution)
    object.__setattr__(wrapper, "_distribution", distribution)
    object.__setattr__(inner, "_distribution", None)
    object.__setattr__(inner, "_handed_on", distribution)


@contextlib.contextmanager
def _inside_wrapper(optimizer: Any) -> Iterator[None]:
    """Tell the optimizer inside this one, if there is one, that its gradients are reduced."""
    inner = getattr(optimizer, "inner_optimizer", None)
    if not isinstance(inner, DistributedMixin):
        yield
        return
    object.__setattr__(inner, "_is_inside_wrapper", True)
    try:
        yield
    finally:
        object.__setattr__(inner, "_is_inside_wrapper", False)


def distributed_class(base: type, make_distribution: Callable[[], Distribution]) -> type:
    """Return the subclass, with the same name, so that a saved model loads without this package."""
    attributes = {
        "__module__": base.__module__,
        "_make_distribution": staticmethod(make_distribution),
    }
    made = type(base.__name__, (DistributedMixin, base), attributes)
    package, separator, name = keras.saving.get_registered_name(base).partition(">")
    if separator:
        # A model is to be saved with the registered name, and to load with the user's class, so
        # that class comes last.
        for registered in (made, base):
            keras.saving.register_keras_serializable(package, name)(registered)
    return made


def is_distributed(optimizer: Any) -> bool:
    """Tell whether DistributedOptimizer made this optimizer, or the one that it wraps."""
    return isinstance(optimizer, DistributedMixin) or isinstance(
        getattr(optimizer, "inner_optimizer", None), DistributedMixin
    )


def distributed(
    optimizer: Any, make_distribution: Callable[[], Distribution], name: str | None = None
) -> Any:
    """Return a distributed optimizer with the configuration and the state of `optimizer`."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            f"DistributedOptimizer needs a Keras 3 optimizer, not {type(optimizer).__name__}"
        )
    if is_distributed(optimizer):
        raise ValueError("this optimizer is distributed already")
    _watch_loss_scaling()
    config = optimizer.get_config()
    if name is not None:
        config["name"] = name
    made = distributed_class(type(optimizer), make_distribution).from_config(config)
    # Keras builds the optimizer of a model read from HDF5 without any variables. Such an optimizer
    # has nothing to take over and would refuse the model's variables.
    if optimizer.built and optimizer._trainable_variables:
        made.build(optimizer._trainable_variables)
        for target, source in zip(made.own_variables(), optimizer.variables):
            target.assign(source)
    return made
