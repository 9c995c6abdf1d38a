/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A plain MPI program: every rank adds its number, and prints the sum that all of them got. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    int rank = -1;
    int size = 0;
    int sum = 0;
    int length = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: sum %d\n", rank, size, host, sum);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
