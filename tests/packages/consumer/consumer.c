/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi_bridge.h>
#include <mpi_bridge_engine.h>
#include <mpi_bridge_messages.h>
#include <mpi_bridge_python.h>
#include <stdio.h>

/* Reduces over the ranks that a launcher has started, or over itself alone. */
int main(void) {
    float value = 1;
    mpib_operation operation = {sizeof operation, MPIB_ALLREDUCE, "value", &value, &value};
    operation.datatype = MPIB_FLOAT32;
    if (mpib_init() != MPIB_OK ||
        mpib_allreduce(&value, &value, 1, MPIB_FLOAT32, MPIB_SUM) != MPIB_OK ||
        mpib_call(&operation) != MPIB_OK) {
        fprintf(stderr, "consumer: %s\n", mpib_last_error());
        return 1;
    }
    printf("sum %g of %d ranks\n", (double)value, mpib_size());
    return mpib_finalize() == MPIB_OK ? 0 : 1;
}
