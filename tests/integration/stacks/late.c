/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rank 2 does not come to the allreduce in which the others wait. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Until there is the file "go". */
static void be_late(void) {
    const struct timespec pause = {1, 0};
    char go[4096];
    snprintf(go, sizeof go, "%s/go", getenv("MARKS"));
    while (access(go, F_OK) != 0)
        nanosleep(&pause, NULL);
}

static void sum_up(int rank) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    int rank = 0;
    char mark[4096];
    FILE* file = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(mark, sizeof mark, "%s/there-%d", getenv("MARKS"), rank);
    file = fopen(mark, "w");
    if (file != NULL) fclose(file);
    puts("step 1");
    fflush(stdout);
    if (rank == 2) be_late();
    sum_up(rank);
    MPI_Finalize();
    return 0;
}
