/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_bridge: collective operations for the processes ("ranks") of one job step.
 *
 * The ranks find each other through PMIx, so any PMIx launcher will do (`srun --mpi=pmix`,
 * `prterun`, `mpirun`). They exchange data through shared memory, sockets and, over RDMA, UCX.
 * There is no coordinator, no host file and no remote shell.
 *
 * Contracts that hold for every function below unless it says otherwise:
 *
 *  - Every function that can fail returns an mpib_status; MPIB_OK is 0. After any other value
 *    mpib_last_error() tells the calling thread what failed, on which rank and in which step.
 *  - Any thread may call any function. Collective calls are serialised inside, one at a time per
 *    process; a second caller waits for the first.
 *  - Collective calls are matched by order, not by name: all ranks must make the same sequence of
 *    collective calls with agreeing arguments. If two threads of one rank race to make collective
 *    calls, that order is not defined. A disagreement in size is found where the messages meet and
 *    is reported as MPIB_ERROR_MISMATCH. After that, as after a timeout or the loss of a peer, the
 *    library refuses every further collective call with the same status, because the order of
 *    messages is then unknown.
 *  - Collective calls block until this rank's part is done. Buffers belong to the caller, and the
 *    library keeps no pointer to them after the call returns. They need no alignment, not even that
 *    of their elements.
 *  - send and recv must not overlap, unless a function allows "in place"; then they may coincide
 *    exactly as its description says. Any other overlap is refused with MPIB_ERROR_INVALID_ARGUMENT
 *    before anything is sent. The parts of one buffer that displacements place must not overlap
 *    each other; this is not checked.
 *  - Counts are in elements where a datatype is given and in bytes otherwise. They may exceed 2^31,
 *    and their total must fit into size_t. A count of zero is allowed, and a pointer to zero bytes
 *    may be NULL. Nothing is written beyond the counts that the caller gives.
 *  - Buffers are host memory.
 *  - Results are bit-identical on every rank, and from run to run for the same number of ranks and
 *    hosts as long as the same algorithms are chosen: sums of floats depend on the order in which
 *    they are added. MPI_BRIDGE_MODEL makes the choice the same in each run.
 *  - The library does not work in a child made by fork() after mpib_init() was called, and such a
 *    child cannot harm the parent. The child's calls return MPIB_ERROR_FORKED, and
 *    mpib_last_error() says so. A function that returns a number returns what it returns for an
 *    unknown handle or process set, and mpib_alloc() returns NULL. In the child, mpib_free(),
 *    mpib_finalize(), which returns MPIB_OK, and the library's exit handlers do nothing, and
 *    mpib_abort() ends the child only. mpib_initialized(), mpib_rank() and the other queries about
 *    the place of the process answer as in the parent. The child can read and write memory of
 *    mpib_alloc() like any inherited memory. The parent does not see what the child writes, but the
 *    child may see what the parent writes or frees later. The library's own connections are closed
 *    in the child; those of UCX and PMIx stay open. A child that calls exec() after fork(), or that
 *    posix_spawn() starts, is not affected.
 */
#ifndef MPI_BRIDGE_H
#define MPI_BRIDGE_H

#include <stddef.h>

#if defined(__GNUC__)
#define MPIB_API __attribute__((visibility("default")))
#else
#define MPIB_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mpib_status {
    MPIB_OK = 0,
    MPIB_ERROR_NOT_INITIALIZED = 1, /* no successful mpib_init(), or after mpib_finalize() */
    MPIB_ERROR_INVALID_ARGUMENT = 2,
    MPIB_ERROR_TIMEOUT = 3,    /* a peer did not do its part before the deadline */
    MPIB_ERROR_PEER_LOST = 4,  /* a peer's process or host is gone */
    MPIB_ERROR_MISMATCH = 5,   /* ranks called with sizes that disagree */
    MPIB_ERROR_BOOTSTRAP = 6,  /* the launcher's PMIx server is missing or cannot be used */
    MPIB_ERROR_INTERNAL = 7,   /* transport or memory failure; mpib_last_error() says which */
    MPIB_ERROR_FORKED = 8,     /* this is a child made by fork(), see above */
    MPIB_ERROR_INTERRUPTED = 9 /* a wait hook asked to leave, see mpib_set_wait_hook() */
} mpib_status;

typedef enum mpib_datatype {
    MPIB_UINT8 = 0,
    MPIB_INT8 = 1,
    MPIB_INT16 = 2,
    MPIB_INT32 = 3,
    MPIB_INT64 = 4,
    MPIB_FLOAT16 = 5,  /* IEEE binary16 */
    MPIB_BFLOAT16 = 6, /* the upper half of an IEEE binary32 */
    MPIB_FLOAT32 = 7,
    MPIB_FLOAT64 = 8,
    MPIB_BOOL = 9 /* one byte: 0 is false, any other value is true; results are 0 or 1 */
} mpib_datatype;

/*
 * Integer sums and products wrap around modulo 2^bits, as unsigned arithmetic does.
 *
 * MPIB_AVERAGE of integers is the exact sum (it never wraps) divided by the number of ranks,
 * truncated toward zero. MPIB_AVERAGE of floating-point numbers is the sum divided by the number of
 * ranks.
 *
 * FLOAT16 and BFLOAT16 are accumulated in 32-bit floats; each result that crosses the network is
 * rounded to nearest even. MPIB_MIN and MPIB_MAX of floating-point numbers return NaN when any rank
 * contributes NaN, so that every rank sees that one of them has diverged.
 *
 * MPIB_AND and MPIB_OR are bitwise for integers and logical for BOOL; floating-point numbers have
 * neither. Apart from these two, BOOL has only MPIB_MIN, which is the same as MPIB_AND, and
 * MPIB_MAX, which is the same as MPIB_OR.
 */
typedef enum mpib_op {
    MPIB_SUM = 0,
    MPIB_AVERAGE = 1,
    MPIB_MIN = 2,
    MPIB_MAX = 3,
    MPIB_PRODUCT = 4,
    MPIB_AND = 5,
    MPIB_OR = 6
} mpib_op;

/*
 * Joins the job step: connects to the launcher's PMIx server and prepares the transport. Collective
 * over all ranks of the step. Idempotent: a call while the library is initialised returns MPIB_OK
 * at once.
 *
 * Without a launcher the process becomes rank 0 of 1. If Slurm started several tasks without PMIx,
 * the call fails with MPIB_ERROR_BOOTSTRAP instead, because each task would train alone.
 *
 * mpib_finalize() runs at exit of the process if the program did not call it. From the first call
 * of mpib_init() on, SIGTERM, SIGINT, SIGHUP and SIGABRT tell the launcher that the process is
 * ending before they end it, which takes two seconds at most. This does not apply to a signal that
 * the program handles or ignores.
 */
MPIB_API mpib_status mpib_init(void);

/*
 * The same for ranks that no PMIx or PMI-2 knows, but that have other means to exchange some bytes,
 * such as a key-value store. The environment does not matter. mpib_abort() then ends this process
 * only, and the others fail as after the loss of a rank.
 *
 * exchange() gives `bytes` bytes at `data` to all ranks, calls give(receiver, rank, data, bytes)
 * once for each rank with what that one has given, and returns 0, or another value if that has not
 * succeeded within `seconds`. The function is called several times, by the thread that is in
 * mpib_init_with(), and equally often on all ranks. Each of the bytes is as secret as the job's
 * data: whoever reads them can connect to the ranks, and whoever changes them can take a rank's
 * place.
 */
typedef void (*mpib_give)(void* receiver, int rank, const void* data, size_t bytes);
typedef int (*mpib_exchange)(void* context, const void* data, size_t bytes, double seconds,
                             mpib_give give, void* receiver);
typedef struct mpib_meeting {
    size_t struct_bytes; /* sizeof(mpib_meeting) */
    int rank;
    int size;
    void* context; /* handed to exchange() */
    mpib_exchange exchange;
} mpib_meeting;
MPIB_API mpib_status mpib_init_with(const mpib_meeting* meeting);

/*
 * Ends the use of the library and frees everything except the connection to the launcher. It is not
 * a barrier. Idempotent. mpib_init() may be called again afterwards, provided that all ranks call
 * it equally often. Calls that other threads are in get two seconds to end, and then fail.
 *
 * The connection closes when the process exits, so return from main() or call exit(). A process
 * that ends by _exit(), which runs no exit handlers, looks like a crash to launchers, and they then
 * end the step.
 */
MPIB_API mpib_status mpib_finalize(void);

/* 1 between a successful mpib_init() and mpib_finalize(), else 0. */
MPIB_API int mpib_initialized(void);

/*
 * The place of this process in the job step. Every function returns -1 when the library is not
 * initialised. "local" counts the ranks on the same host. "cross" counts the ranks, one per host,
 * that have the same local rank; cross_size is the number of hosts that have a rank with this local
 * rank.
 */
MPIB_API int mpib_rank(void);
MPIB_API int mpib_size(void);
MPIB_API int mpib_local_rank(void);
MPIB_API int mpib_local_size(void);
MPIB_API int mpib_cross_rank(void);
MPIB_API int mpib_cross_size(void);

/* 1 when every host has the same number of ranks, 0 when not, -1 when not initialised. */
MPIB_API int mpib_is_homogeneous(void);

/*
 * recv[i] = op over all ranks of send[i], for count elements; every rank gets the result.
 * In place: send == recv. Partial overlap is not allowed.
 */
MPIB_API mpib_status mpib_allreduce(const void* send, void* recv, size_t count,
                                    mpib_datatype datatype, mpib_op op);

/* Copies `bytes` bytes of the root's buffer into every other rank's buffer. */
MPIB_API mpib_status mpib_broadcast(void* buffer, size_t bytes, int root);

/*
 * Every rank contributes bytes_per_rank bytes; recv (size * bytes_per_rank) gets them in the order
 * of ranks. In place: send == (char*)recv + rank * bytes_per_rank.
 */
MPIB_API mpib_status mpib_allgather(const void* send, void* recv, size_t bytes_per_rank);

/*
 * The same with a different length per rank. recv_bytes[r] is the length of rank r's part in bytes
 * and must be the same on all ranks (exchange the lengths first with mpib_allgather).
 * displacements[r] is the byte offset of that part in recv and may differ from rank to rank;
 * displacements == NULL means that the parts are packed in the order of ranks. send_bytes must
 * equal recv_bytes[rank].
 * In place: send == (char*)recv + displacements[rank].
 */
MPIB_API mpib_status mpib_allgatherv(const void* send, size_t send_bytes, void* recv,
                                     const size_t* recv_bytes, const size_t* displacements);

/*
 * Reduces the concatenation of `size` parts and leaves part r on rank r. counts[r] is the number of
 * elements in part r; all ranks must pass the same array. send holds the sum of counts, recv holds
 * counts[rank] elements. There is no in-place form: recv must not overlap send.
 */
MPIB_API mpib_status mpib_reduce_scatter(const void* send, void* recv, const size_t* counts,
                                         mpib_datatype datatype, mpib_op op);

/*
 * Part r of send (bytes_per_pair bytes each) goes to rank r; part r of recv comes from rank r.
 * There is no in-place form: recv must not overlap send.
 */
MPIB_API mpib_status mpib_alltoall(const void* send, void* recv, size_t bytes_per_pair);

/*
 * The same with a different length per pair. Displacements are byte offsets; NULL means that the
 * parts are packed in the order of ranks. send_bytes[r] on this rank must equal recv_bytes[rank] on
 * rank r. There is no in-place form: no part of recv may overlap a part of send.
 */
MPIB_API mpib_status mpib_alltoallv(const void* send, const size_t* send_bytes,
                                    const size_t* send_displacements, void* recv,
                                    const size_t* recv_bytes, const size_t* recv_displacements);

/* Returns after every rank has entered it. */
MPIB_API mpib_status mpib_barrier(void);

/*
 * recv[i] on the root = op over all ranks of send[i], for count elements. recv is not used on other
 * ranks and may be NULL there. In place on the root: send == recv.
 */
MPIB_API mpib_status mpib_reduce(const void* send, void* recv, size_t count, mpib_datatype datatype,
                                 mpib_op op, int root);

/*
 * Allocates memory that the other ranks of this node can reach: collectives whose buffers all come
 * from here run without copies. The memory is aligned to a page and not initialised, and is
 * ordinary memory in every other respect. Returns NULL when the node's shared memory is full
 * (mpib_last_error() says so) or the library is not initialised. mpib_free(NULL) does nothing.
 * mpib_finalize() frees what the caller has not freed.
 */
MPIB_API void* mpib_alloc(size_t bytes);
MPIB_API void mpib_free(void* memory);

/*
 * The text of the calling thread's last failure, or "" if there was none; never NULL. It is valid
 * until the thread's next failing call. A call that succeeds does not clear it.
 */
MPIB_API const char* mpib_last_error(void);

/* The constant name of a status, such as "MPIB_ERROR_TIMEOUT"; never NULL. */
MPIB_API const char* mpib_status_name(mpib_status status);

/* The library's version, such as "0.1.0"; never NULL. */
MPIB_API const char* mpib_version(void);

/*
 * Sets how long, in seconds, a collective call or mpib_init() may wait for peers without any
 * progress. `seconds` must be a positive number. May be called before mpib_init(). The default is
 * MPI_BRIDGE_TIMEOUT_SECONDS from the environment. Without either, mpib_init() waits for 300 s and
 * a collective waits without limit: a peer may evaluate or write a checkpoint for as long as it
 * takes, a peer that has died fails the call, and a peer that is frozen is named on standard error.
 */
MPIB_API mpib_status mpib_set_timeout(double seconds);

/* The bytes of one element, or 0 for an unknown datatype. */
MPIB_API size_t mpib_datatype_size(mpib_datatype datatype);

/*
 * Ends the whole job step: prints the message to standard error, asks the launcher to kill the
 * other ranks, and exits this process with `code`, or with 1 if the 8 bits that are seen of it are
 * 0. Does not return, and works before mpib_init() too. message may be NULL.
 */
MPIB_API void mpib_abort(int code, const char* message);

#ifdef __cplusplus
}
#endif

#endif /* MPI_BRIDGE_H */
