// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "mpi_bridge_python.h"

int mpib_check_python_signals(void* python) {
    auto& interpreter = *static_cast<mpib_python*>(python);
    if (pthread_self() != interpreter.main_thread) return 0;
    const int state = interpreter.ensure();
    const bool raised = interpreter.check_signals() != 0;
    if (raised) interpreter.fetch(&interpreter.type, &interpreter.value, &interpreter.traceback);
    interpreter.release(state);
    return raised ? 1 : 0;
}
