# SPDX-License-Identifier: Apache-2.0
"""Ranks of Keras that outlive rank 1, which dies in the middle of an epoch of fit()."""

import os
import signal

import check
import keras
import numpy as np

import horovod.keras as hvd

EPOCHS = 4


class Dies(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if FIRST_RANK == 1 and (state.epoch, batch) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)


def train(state):
    begun_at.append(state.epoch)
    callbacks = [
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.CommitStateCallback(state, 4),
        Dies(),
    ]
    ones = np.ones((32, 4), "f4"), np.ones((32, 1), "f4")
    left = EPOCHS - state.epoch
    model.fit(*ones, batch_size=4, epochs=left, verbose=0, callbacks=callbacks)


hvd.init()
FIRST_RANK, first_size, begun_at = hvd.rank(), hvd.size(), []
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
state = hvd.elastic.KerasState(model, epoch=0)
hvd.elastic.run(train)(state)
check.equal("where it has begun", begun_at, [0, 1])
check.equal("epochs", state.epoch, EPOCHS)
check.equal("ranks", hvd.size(), first_size - 1)
for weights in model.get_weights():
    check.same_on_all_ranks("the weights", weights)
print(f"passed on rank {FIRST_RANK}, {hvd.size()} ranks, process {os.getpid()}", flush=True)
