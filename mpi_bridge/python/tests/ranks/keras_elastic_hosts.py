# SPDX-License-Identifier: Apache-2.0
"""model.fit() when the hosts are to change: the callback's commit ends the ranks.

The start "1" is told after its third batch; a later start trains to the end of the second epoch.
"""

import json
import os
import time
from pathlib import Path

import check
import keras
import numpy as np

import horovod.keras as hvd
from horovod.keras import elastic

START = os.environ["BATCHAI_ELASTIC_START"]
EPOCHS = 2


class Announce(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2 and hvd.rank() == 0 and START == "1":
            update = {"schema": "batchai-hosts-update/v1", "start": START, "change": "removed"}
            path = Path(os.environ["BATCHAI_ELASTIC_DIRECTORY"]) / "hosts.json"
            path.write_text(json.dumps(update))
            time.sleep(1.1)  # a look a second


@elastic.run
def train(state):
    model.fit(
        np.ones((32, 2)),
        np.ones((32, 1)),
        batch_size=4,
        epochs=EPOCHS - state.epoch,
        verbose=0,
        callbacks=[
            Announce(),
            elastic.UpdateBatchStateCallback(state),
            elastic.UpdateEpochStateCallback(state),
            elastic.CommitStateCallback(state),
        ],
    )


hvd.init()
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
state = elastic.KerasState(model, epoch=0, batch=0)
try:
    train(state)
except SystemExit:
    print(f"ended after batch {state.batch} of epoch {state.epoch}", flush=True)
    raise
check.equal("epochs", state.epoch, EPOCHS)
check.same_on_all_ranks("the weights", model.get_weights()[0])
check.passed()
