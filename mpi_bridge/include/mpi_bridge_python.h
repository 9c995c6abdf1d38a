/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a binding of Python that has no C code of its own needs, so that signals are handled while
 * the main thread waits.
 */
#ifndef MPI_BRIDGE_PYTHON_H
#define MPI_BRIDGE_PYTHON_H

#include "mpi_bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mpib_python {
    unsigned long main_thread; /* threading.main_thread().ident */
    /* Functions of CPython's stable ABI. */
    int (*ensure)(void);                                        /* PyGILState_Ensure */
    void (*release)(int state);                                 /* PyGILState_Release */
    int (*check_signals)(void);                                 /* PyErr_CheckSignals */
    void (*fetch)(void** type, void** value, void** traceback); /* PyErr_Fetch */
    /* What a signal handler has raised: references that the binding owns, for PyErr_Restore(). */
    void* type; /* NULL: nothing */
    void* value;
    void* traceback;
} mpib_python;

/*
 * A hook for mpib_set_wait_hook(). `python` is an mpib_python, which must stay as long as the hook
 * is set. Runs Python's signal handlers if the calling thread is Python's main thread, and does
 * nothing otherwise. The binding must take the hook away before the interpreter ends.
 */
MPIB_API int mpib_check_python_signals(void* python);

#ifdef __cplusplus
}
#endif

#endif /* MPI_BRIDGE_PYTHON_H */
