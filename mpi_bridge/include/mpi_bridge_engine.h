/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of mpi_bridge: named, asynchronous operations, process sets, and what tells about
 * them (timeline, counters). The blocking functions of mpi_bridge.h are matched by order; what is
 * submitted here is matched by name, so every rank may submit from any thread and in any order.
 *
 * How the ranks agree. The first step of a training loop is negotiated: in rounds of logarithmic
 * depth and without a coordinator, the ranks find what all of them have submitted. When names come
 * again, their order becomes the plan: small tensors that follow each other share a bucket, and the
 * plan is verified once by its hash. From then on no round takes place, and a bucket runs as soon
 * as this rank has submitted all of it.
 *
 * What a planned bucket costs beside its own collective is the question whether all ranks have all
 * of it. An allreduce of at most 32 KiB answers it in one more element of its own vector. Before a
 * larger bucket, a group of several collectives, and operations on device memory, an allreduce of
 * 16 bytes answers it.
 *
 * Operations that are not in the plan are negotiated beside it: those whose length other ranks
 * decide (allgather, alltoall), those that do not come in every step, and those without a name. If
 * the plan has operations on device memory, it is paused for one that is negotiated, which costs
 * one more exchange. When a rank waits for something out of the plan's order, or means something
 * else by a planned name, all ranks leave the plan together and a new one is recorded; a name that
 * keeps breaking plans is left out of them.
 *
 * Contracts that hold for every function below unless it says otherwise:
 *
 *  - Any thread may call any function. A process set id is the same number on all ranks.
 *  - A name is in use from submission until its handle is released; a second submission under the
 *    same name and process set meanwhile is MPIB_ERROR_INVALID_ARGUMENT.
 *  - Ranks that submit one name with different kind, datatype, op, shape, root or scale: every
 *    rank's wait returns MPIB_ERROR_MISMATCH, and the text names the tensor, the ranks and both
 *    values. The engine goes on; other names are not touched by it.
 *  - A lost peer or a passed deadline fails every operation in flight on every rank, and every
 *    later one, within a bounded time; the text says which rank and which step.
 *  - Buffers stay the caller's and must neither be written nor freed until the operation is done.
 *  - Buffers in host memory need no alignment. A pointer to zero bytes may be NULL.
 *  - recv may be send for allreduce, broadcast and reduce; any other overlap is refused. Of an
 *    allgather send may be this rank's place in recv; another overlap is wrong, but not noticed.
 *  - The length of what an allgather or an alltoall puts into recv depends on what other ranks
 *    pass, so the caller says in recv_bytes how much recv can hold. Too little on any rank is
 *    MPIB_ERROR_MISMATCH on every rank, with the rank and both numbers in the text. Nothing is
 *    written then, and the engine goes on.
 *
 * Device memory, MPIB_DEVICE. An operation with this flag works on CUDA device memory, in the order
 * of `stream` (a cudaStream_t; NULL is the legacy default stream). Of it the contracts above hold,
 * and these:
 *
 *  - It begins after what the stream held when it was submitted (of a process set's first such
 *    operations: perhaps after what was put there a little later). Nothing waits for the device:
 *    no call here synchronises the host with it, but where host-staged is said below.
 *  - mpib_wait() returns MPIB_OK when the operation is under way and `stream` waits for it: what is
 *    put into that stream from then on runs after it, and finds the result in recv. The result must
 *    not be touched otherwise, and the buffers may be written, or given back to an allocator in the
 *    order of that stream. Host-staged, mpib_wait() returns when the result is on its way back to
 *    the device, because no event can stand for what other hosts have yet to do.
 *  - mpib_poll() is 1 when the device has done the operation (well or not): any stream, and the
 *    host, may use the result then. mpib_wait() must still be called, for the status.
 *  - mpib_release() without mpib_wait() waits until the operation is under way, and orders nothing:
 *    the buffers must stay until mpib_poll() has said 1, or the device was synchronised.
 *  - mpib_call() is mpib_submit(), mpib_wait() and mpib_release().
 *  - What happens after mpib_wait(), on the device or to a peer, is noticed by the engine within
 *    some seconds: the operations under way are aborted on every rank, and every later call fails.
 *    The result of an operation is good when the stream has been synchronised and no call of the
 *    engine has failed meanwhile.
 *  - recv NULL (allgather, alltoall, reduce_scatter): mpib_result.data is device memory of the
 *    engine, ready in the order of `stream`, and is given back by mpib_release() in the order of
 *    `stream`. So: wait, get the result, enqueue a copy on `stream`, release. NULL when it is
 * empty.
 *  - The stream must exist until the handle is released, and all handles must be released before
 *    mpib_finalize(), which ends what is not done within some seconds.
 *  - All ranks pass the flag under one name, or none; else it is a mismatch. A rank whose tensors
 *    are in host memory, beside others that have a GPU, passes the flag with its host pointers and
 *    stream NULL; the process set is then served host-staged. The memory of all such operations of
 *    a rank and a process set is in one place, one device or the host: others are refused. The
 *    engine asks CUDA where memory is only under this flag: without it, pointers must be host
 *    memory.
 *  - send and recv are aligned to their elements.
 *  - MPIB_REDUCE is not supported yet. MPIB_BARRIER and MPIB_JOIN ignore the flag; a barrier
 *    is between the hosts, and waits for no device. Joined ranks take part with
 *    neutral elements of their own memory.
 *  - Sums of 16-bit floats, and AND and OR of integers: see docs/gpu.md for what NCCL does.
 *
 * A framework with a caching allocator: pass the current stream, keep a reference to the tensors
 * until mpib_wait() has returned, and tell the allocator of `stream` (record_stream) for a tensor
 * that was allocated for another one. Nothing need be said of the engine's own streams: they are
 * waited for through `stream`.
 */
#ifndef MPI_BRIDGE_ENGINE_H
#define MPI_BRIDGE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "mpi_bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The process set of all ranks. */
#define MPIB_WORLD 0

typedef enum mpib_kind {
    MPIB_ALLREDUCE = 0,
    MPIB_ALLGATHER = 1, /* along the first dimension, whose length may differ per rank */
    MPIB_BROADCAST = 2,
    MPIB_REDUCE_SCATTER = 3, /* along the first dimension; the longer parts go to low ranks */
    MPIB_ALLTOALL = 4,       /* along the first dimension, by `splits` */
    MPIB_REDUCE = 5,
    MPIB_BARRIER = 6,
    MPIB_JOIN = 7 /* see mpib_join() */
} mpib_kind;
#define MPIB_KIND_COUNT 8

/* The caller will wait for this operation at once: run it on the waiting thread, wake no other. */
#define MPIB_WAITED_FOR 1u
/* send and recv are CUDA device memory, used in the order of `stream`; see above. */
#define MPIB_DEVICE 2u

/* For recv_bytes: recv, which may be NULL then, can hold nothing. */
#define MPIB_NO_BYTES SIZE_MAX

/*
 * One operation. Zero what is not used; struct_bytes must be sizeof(mpib_operation). Another value
 * is refused: the program was compiled with another version of this file, and what it does not know
 * of, such as recv_bytes, must not be guessed.
 */
typedef struct mpib_operation {
    size_t struct_bytes;
    mpib_kind kind;
    const char*
        name; /* copied; NULL: "<kind>.noname.<n>", n counting such operations of the kind */
    const void* send;
    void* recv;           /* may be send (allreduce, broadcast, reduce); NULL: see mpib_result */
    const int64_t* shape; /* of send, `dimensions` numbers; copied */
    int dimensions;       /* 0: one element */
    mpib_datatype datatype;
    mpib_op op;            /* allreduce, reduce, reduce_scatter */
    int root;              /* global rank; broadcast, reduce */
    double prescale;       /* 0 or 1: none. Each element is multiplied before the reduction */
    double postscale;      /* 0 or 1: none. ... and after it */
    const int64_t* splits; /* alltoall: rows to each member of the set; NULL: equal parts; copied */
    int process_set;       /* MPIB_WORLD or an id from mpib_process_set_add() */
    /* Operations that carry the same group name (not NULL) run together, once group_size of them
     * are submitted on every rank. */
    const char* group;
    int group_size;
    unsigned flags;
    void* stream; /* cudaStream_t, for MPIB_DEVICE */
    /* How many bytes recv can hold. Must be given for an allgather and an alltoall unless recv is
     * NULL, see above; 0 is refused there, because it says nothing. Of other kinds the length of
     * the result follows from this operation alone: 0 stands for that, and less is refused. */
    size_t recv_bytes;
} mpib_operation;

/* Names an operation in flight; never 0. */
typedef int64_t mpib_handle;

/*
 * Hands an operation to the engine and returns at once. After MPIB_OK the handle must be released
 * once, by mpib_release(). Arguments that are wrong on this rank alone are refused here.
 */
MPIB_API mpib_status mpib_submit(const mpib_operation* operation, mpib_handle* handle);

/* 1 when done (well or not), 0 when not, -1 when the handle is unknown. Device memory: see above.
 */
MPIB_API int mpib_poll(mpib_handle handle);

/*
 * Waits until the operation is done (on device memory: until it is under way, see above) and
 * returns its status. `seconds` > 0 bounds the wait: when it passes, MPIB_ERROR_TIMEOUT is returned
 * and the operation goes on. 0 waits as long as the engine's own deadlines allow, and works off the
 * engine's queue on the calling thread where it can, which saves a wake-up.
 */
MPIB_API mpib_status mpib_wait(mpib_handle handle, double seconds);

/* What an operation that is done left behind. Valid until the handle is released. */
typedef struct mpib_result {
    size_t struct_bytes;
    /* recv, or where recv was NULL (allgather, alltoall, reduce_scatter) memory of the engine, on
     * the device for MPIB_DEVICE. */
    const void* data;
    size_t bytes;
    int64_t rows;                 /* length of the first dimension of the result */
    const int64_t* received_rows; /* allgather, alltoall: rows from each member, in their order */
    int members;
    int last_joined; /* join: the rank that joined last; else -1 */
} mpib_result;

/* MPIB_ERROR_INVALID_ARGUMENT when the operation is not done or the handle is unknown. */
MPIB_API mpib_status mpib_get_result(mpib_handle handle, mpib_result* result);

/* Frees the handle. Waits first when the operation is not done. Unknown handles are refused. */
MPIB_API mpib_status mpib_release(mpib_handle handle);

/*
 * Submits, waits and releases. Runs inline where the plan allows; the quick way for small vectors.
 * recv must not be NULL, except where recv_bytes is MPIB_NO_BYTES.
 */
MPIB_API mpib_status mpib_call(const mpib_operation* operation);

/*
 * Says that this rank has no more data. Until all ranks of the job have joined, it takes part in
 * allreduces of the world with zeros (for MIN, MAX, PRODUCT, AND and OR: with the neutral element);
 * other operations fail on the ranks that submit them. Blocks until every rank has joined;
 * *last_rank (may be NULL) is the one that came last, the highest of several that came together.
 * MPIB_AVERAGE divides by the number of all ranks. Operations of other process sets are not
 * touched: one that a joined rank has not submitted waits until all have joined and that rank
 * submits it.
 */
MPIB_API mpib_status mpib_join(int* last_rank);

/*
 * Process sets. add: collective over all ranks of the job, which pass the same ascending ranks; a
 * set with the same members that exists already gives MPIB_ERROR_INVALID_ARGUMENT on all ranks.
 * At most 255 sets exist at a time. remove: collective likewise; the world cannot be removed. What
 * the set has in flight then fails.
 */
MPIB_API mpib_status mpib_process_set_add(const int* ranks, int count, int* id);
MPIB_API mpib_status mpib_process_set_remove(int id);
/* Index of this rank in the set or -1 when it is no member; -2 when the set is unknown. */
MPIB_API int mpib_process_set_rank(int id);
/* Number of members; -2 when the set is unknown. */
MPIB_API int mpib_process_set_size(int id);
/* Writes the members, ascending, at most `room` of them; returns their number, -2 when unknown. */
MPIB_API int mpib_process_set_ranks(int id, int* ranks, int room);
/* Writes the ids in use, ascending, at most `room` of them; returns their number. */
MPIB_API int mpib_process_set_ids(int* ids, int room);

/*
 * Starts to write a timeline (Chrome trace format, for chrome://tracing or Perfetto) of this rank
 * to PATH.RANK.json; `mpi_bridge_timeline merge` joins those of all ranks. Not collective.
 * MPI_BRIDGE_TIMELINE=PATH starts it in mpib_init(). MPIB_ERROR_INVALID_ARGUMENT when the file
 * cannot be written or a timeline is being written.
 */
MPIB_API mpib_status mpib_timeline_start(const char* path);
/* Completes the file. No timeline: MPIB_OK. */
MPIB_API mpib_status mpib_timeline_stop(void);

/* What this rank has done since mpib_init(), by kind (index: mpib_kind), blocking calls included.
 */
typedef struct mpib_counters {
    size_t struct_bytes;
    uint64_t operations[MPIB_KIND_COUNT]; /* completed well */
    uint64_t failures[MPIB_KIND_COUNT];
    uint64_t bytes[MPIB_KIND_COUNT];       /* of the send buffers */
    uint64_t collectives[MPIB_KIND_COUNT]; /* what was run: a bucket counts once */
    /* Bytes each rank must move in both directions at least, as nccl-tests define bus bandwidth:
     * bus_bytes / transfer_nanoseconds is the bus bandwidth in GB/s. */
    uint64_t bus_bytes[MPIB_KIND_COUNT];
    uint64_t transfer_nanoseconds[MPIB_KIND_COUNT]; /* of both, device memory has no part */
    uint64_t queued_nanoseconds;                    /* submitted, but not yet on all ranks */
    uint64_t negotiation_nanoseconds;               /* in control rounds */
    uint64_t pack_nanoseconds;                      /* into buckets */
    uint64_t unpack_nanoseconds;                    /* out of buckets */
    uint64_t negotiation_rounds;
    uint64_t planned_buckets; /* run without negotiation */
    uint64_t plans_made;
    uint64_t plans_broken;
} mpib_counters;

/* struct_bytes must be set. */
MPIB_API mpib_status mpib_read_counters(mpib_counters* counters);

#ifdef __cplusplus
}
#endif

#endif /* MPI_BRIDGE_ENGINE_H */
