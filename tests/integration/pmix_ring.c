// SPDX-License-Identifier: GPL-2.0-or-later
// Every rank publishes its host's name through PMIx and prints the name of the next rank's host.
// Right output needs a launcher that wired all ranks: singletons would each see a job of size 1.
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(pmix_status_t status, const char* what) {
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "pmix_ring: %s: %s\n", what, PMIx_Error_string(status));
        exit(1);
    }
}

int main(void) {
    pmix_proc_t self;
    check(PMIx_Init(&self, NULL, 0), "PMIx_Init");

    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t* value = NULL;
    check(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value), "PMIx_Get of the job's size");
    const unsigned size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);

    char host[256] = "";
    gethostname(host, sizeof host - 1);
    pmix_value_t own = {.type = PMIX_STRING, .data = {.string = host}};
    check(PMIx_Put(PMIX_GLOBAL, "ring.host", &own), "PMIx_Put");
    check(PMIx_Commit(), "PMIx_Commit");
    // Slurm answers an empty fence at once (PMIxFenceBarrier is off by default). One that carries
    // data waits for all ranks, and the Get after it is answered on this host: without data it
    // would ask the neighbour's PMIx server, which may have ended with its last rank.
    const bool collect = true;
    pmix_info_t with_data;
    PMIX_INFO_LOAD(&with_data, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    check(PMIx_Fence(NULL, 0, &with_data, 1), "PMIx_Fence");

    pmix_proc_t next;
    PMIX_LOAD_PROCID(&next, self.nspace, (self.rank + 1) % size);
    check(PMIx_Get(&next, "ring.host", NULL, 0, &value), "PMIx_Get of the neighbour's host");
    printf("rank %u of %u on %s, next on %s\n", self.rank, size, host, value->data.string);
    PMIX_VALUE_RELEASE(value);
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}
