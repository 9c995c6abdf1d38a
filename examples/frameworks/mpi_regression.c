/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fits a line with MPI: each rank generates points of its own, and gradients are added up.
   mpicc -o mpi_regression mpi_regression.c */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 1000, STEPS = 8 };

static double uniform(void) {
    return 2.0 * rand() / RAND_MAX - 1.0;
}

int main(int argc, char** argv) {
    int rank = -1;
    int size = 0;
    int length = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    static double x[POINTS];
    double slope = 0.0;
    double offset = 0.0;
    double first = 0.0;
    double last = 0.0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    srand((unsigned)rank + 1);
    for (int i = 0; i < POINTS; ++i) {
        x[i] = uniform();
    }
    for (int step = 0; step < STEPS; ++step) {
        /* The two parts of the gradient, and the loss. */
        double mine[3] = {0.0, 0.0, 0.0};
        double all[3] = {0.0, 0.0, 0.0};
        for (int i = 0; i < POINTS; ++i) {
            const double error = slope * x[i] + offset - (3.0 * x[i] - 1.0);
            mine[0] += error * x[i];
            mine[1] += error;
            mine[2] += error * error;
        }
        MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        slope -= all[0] / ((double)POINTS * size);
        offset -= all[1] / ((double)POINTS * size);
        last = all[2] / ((double)POINTS * size);
        if (step == 0) {
            first = last;
        }
    }
    printf("rank %d of %d on %s: loss %.6f -> %.6f\n", rank, size, host, first, last);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
