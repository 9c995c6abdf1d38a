/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of mpi_bridge: named, asynchronous operations, process sets, and the means to observe
 * them (timeline, counters). The blocking functions of mpi_bridge.h are matched by order.
 * Operations that are submitted here are matched by name, so every rank may submit from any thread
 * and in any order.
 *
 * How the ranks agree. The first step of a training loop is negotiated: in rounds of logarithmic
 * depth and without a coordinator, the ranks find out what all of them have submitted. When names
 * come again, their order becomes the plan: consecutive small tensors share a bucket, and the ranks
 * verify once, by a hash, that they have made the same plan. From then on there are no rounds, and
 * a bucket runs as soon as this rank has submitted all of it.
 *
 * The only cost of a planned bucket beside its own collective is to find out whether all ranks have
 * all of it. An allreduce of at most 32 KiB learns this from one more element in its own vector.
 * Before a larger bucket, another kind of operation, a group of several collectives, and operations
 * on device memory, the ranks learn it from an allreduce of 16 bytes.
 *
 * Before an allgather or an alltoall the ranks tell each other their lengths, planned or not.
 * Operations that do not come in every step, and those without a name, are negotiated beside the
 * plan. If the plan has operations on device memory, it is paused once in each round that runs a
 * negotiated operation on device memory or adds a process set, which costs one more exchange. Once
 * a process set has been added, each operation on device memory, and each bucket of fused ones,
 * costs one more allreduce of 16 bytes, by which its members agree on its place among the
 * operations of all sets on their devices. When a rank waits for something out of the plan's order,
 * or submits a different operation under a planned name, all ranks leave the plan together and a
 * new one is recorded. A name that keeps breaking plans is left out of them.
 *
 * Contracts that hold for every function below unless it says otherwise:
 *
 *  - Any thread may call any function. A process set id is the same number on all ranks.
 *  - A name is in use from submission until its handle is released. Submitting the same name in the
 *    same process set meanwhile is MPIB_ERROR_INVALID_ARGUMENT.
 *  - If ranks submit one name with different kinds, datatypes, ops, shapes, roots or scales, every
 *    rank's wait returns MPIB_ERROR_MISMATCH, and the text names the tensor, the ranks and both
 *    values. The engine goes on, and operations under other names are not affected.
 *  - A lost peer or an expired deadline fails every operation in flight on every rank, and every
 *    later one, within a bounded time. The text says which rank failed and in which step.
 *  - Buffers belong to the caller and must be neither written nor freed until the operation is
 *    done.
 *  - Buffers in host memory need no alignment. A pointer to zero bytes may be NULL.
 *  - recv may equal send for allreduce, broadcast and reduce; any other overlap is refused. For an
 *    allgather, send may be anywhere in recv, because it is moved to this rank's place before
 *    anything arrives. In device memory it may only be that place; any other overlap there is an
 *    error that is not detected.
 *  - How many bytes an allgather or an alltoall puts into recv depends on what other ranks pass, so
 *    the caller says in recv_bytes how much recv can hold. If it is too little on any rank, the
 *    operation fails with MPIB_ERROR_MISMATCH on every rank, with the rank and both numbers in the
 *    text. Nothing is written in that case, and the engine goes on.
 *
 * Device memory, MPIB_DEVICE. An operation with this flag works on CUDA device memory, in the order
 * of `stream` (a cudaStream_t; NULL is the legacy default stream). The contracts above hold for it,
 * and so do these:
 *
 *  - The operation begins after the work that the stream held when it was submitted. (The first
 *    such operations of a process set may also wait for work that was enqueued a little later.) No
 *    call here synchronises the host with the device, except where host-staged operations are
 *    mentioned below.
 *  - mpib_wait() returns MPIB_OK when the operation is under way and `stream` waits for it: work
 *    that is enqueued on that stream from then on runs after the operation and finds the result in
 *    recv. Work in any other order must not touch the result. The buffers may be written, or given
 *    back to an allocator, in the order of that stream. For a host-staged operation, mpib_wait()
 *    returns when the result is on its way back to the device, because no event can stand for what
 *    other hosts have yet to do.
 *  - mpib_poll() returns 1 when the device has finished the operation (successfully or not): any
 *    stream, and the host, may use the result then. mpib_wait() must still be called to get the
 *    status.
 *  - mpib_release() without mpib_wait() waits until the operation is under way, and makes no stream
 *    wait for it: the buffers must stay until mpib_poll() has returned 1, mpib_device_reached()
 * has, or the device was synchronised.
 *  - mpib_call() is mpib_submit(), mpib_wait() and mpib_release().
 *  - The engine notices within some seconds what goes wrong after mpib_wait(), on the device or at
 *    a peer: the operations under way are aborted on every rank, and every later call fails. The
 *    result of an operation is valid when the stream has been synchronised and no call of the
 *    engine has failed meanwhile.
 *  - If recv is NULL (allgather, alltoall, reduce_scatter), mpib_result.data is device memory of
 *    the engine. It is ready in the order of `stream`, and mpib_release() gives it back in the
 *    order of `stream`. So wait, get the result, enqueue a copy on `stream`, and release. It is
 *    NULL when the result is empty.
 *  - The stream must exist until the handle is released. All handles must be released before
 *    mpib_finalize(), which aborts operations that are not done within some seconds.
 *  - Either all ranks pass the flag under one name, or none does; anything else is a mismatch. A
 *    rank whose tensors are in host memory, while other ranks have a GPU, passes the flag with its
 *    host pointers and a NULL stream; operations of the process set are then host-staged. All such
 *    operations of a rank in a process set must have their memory in the same place, one device or
 *    the host; others are refused. The engine asks CUDA where memory is only under this flag;
 *    without it, pointers must be to host memory.
 *  - send and recv must be aligned to their elements.
 *  - CUDA's per-thread default stream is not supported: in a thread of the engine its number means
 *    another stream.
 *  - MPIB_REDUCE is not supported yet. MPIB_BARRIER and MPIB_JOIN ignore the flag; a barrier
 *    synchronises the hosts and waits for no device. Joined ranks take part with neutral elements
 *    in memory of their own.
 *  - Sums of 16-bit floats, and AND and OR of integers, follow NCCL: see docs/gpu.md.
 *
 * A framework with a caching allocator should pass the current stream, keep a reference to the
 * tensors until mpib_wait() has returned, and tell the allocator about `stream` (record_stream) for
 * a tensor that was allocated for another stream. The allocator need not know the engine's own
 * streams, because `stream` waits for them.
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

/* For `place`; n is CUDA's ordinal in this process. */
#define MPIB_ON_DEVICE(n) ((n) + 1)
#define MPIB_ON_HOST (-1)

/* For recv_bytes: recv has room for nothing, and may be NULL. */
#define MPIB_NO_BYTES SIZE_MAX

/*
 * One operation. Set unused fields to zero. struct_bytes must be sizeof(mpib_operation); any other
 * value is refused, because the program was then compiled with another version of this file, and
 * the values of fields that it does not know, such as recv_bytes, must not be guessed.
 */
typedef struct mpib_operation {
    size_t struct_bytes;
    mpib_kind kind;
    const char*
        name; /* copied; NULL: "<kind>.noname.<n>", where n counts such operations of the kind */
    const void* send;
    void* recv;           /* may be send (allreduce, broadcast, reduce); NULL: see mpib_result */
    const int64_t* shape; /* of send, `dimensions` numbers; copied */
    int dimensions;       /* 0: one element */
    mpib_datatype datatype;
    mpib_op op;            /* allreduce, reduce, reduce_scatter */
    int root;              /* global rank of the root; broadcast, reduce */
    double prescale;       /* 0 or 1: none. Each element is multiplied by it before the reduction */
    double postscale;      /* 0 or 1: none. Each element is multiplied by it after the reduction */
    const int64_t* splits; /* alltoall: rows to each member of the set; NULL: equal parts; copied */
    int process_set;       /* MPIB_WORLD or an id from mpib_process_set_add() */
    /* Operations that carry the same group name (not NULL) run together, once group_size of them
     * are submitted on every rank. */
    const char* group;
    int group_size;
    unsigned flags;
    void* stream; /* cudaStream_t, for MPIB_DEVICE */
    /* How many bytes recv can hold. Required for an allgather and an alltoall unless recv is NULL,
     * see above; 0 is refused there, because it says nothing. For other kinds the length of the
     * result follows from this operation alone: 0 means that length, and a smaller value is
     * refused. */
    size_t recv_bytes;
    /* MPIB_DEVICE: where the tensor is, MPIB_ON_DEVICE(n) or MPIB_ON_HOST. 0: where send or recv
     * is, which says nothing if there are no elements. */
    int place;
} mpib_operation;

/* Names an operation in flight; never 0. */
typedef int64_t mpib_handle;

/*
 * Hands an operation to the engine and returns at once. After MPIB_OK the handle must be released
 * once, by mpib_release(). Arguments that are wrong on this rank alone are refused here.
 */
MPIB_API mpib_status mpib_submit(const mpib_operation* operation, mpib_handle* handle);

/* Returns 1 when the operation is done (successfully or not), 0 when it is not, -1 when the handle
 * is unknown. Device memory: see above. */
MPIB_API int mpib_poll(mpib_handle handle);

/*
 * Waits until the operation is done (on device memory: until it is under way, see above) and
 * returns its status. `seconds` > 0 limits the wait: when that time has passed, MPIB_ERROR_TIMEOUT
 * is returned and the operation goes on. 0 waits as long as the engine's own deadlines allow, and
 * works through the engine's queue on the calling thread where it can, which saves a wake-up.
 */
MPIB_API mpib_status mpib_wait(mpib_handle handle, double seconds);

/*
 * Lets a program react to signals while one of its threads waits in mpib_wait(), mpib_call(),
 * mpib_release(), mpib_join() or a change of process sets; made for interpreters, which run signal
 * handlers later than the kernel. A thread that waits calls the hook twice a second, without
 * holding a lock of the library, which the hook may call. If the hook returns another value than 0,
 * the wait ends with MPIB_ERROR_INTERRUPTED: that of mpib_wait() and mpib_release() at once, and
 * the operation goes on; any other when the operation is done. If the thread itself takes part in a
 * collective, or cannot leave the operation behind, the others get a second to come. Then
 * everything in flight fails on all ranks, as after the loss of this one. NULL: no hook. Any thread
 * may call this; the hook is used by waits that begin later.
 */
typedef int (*mpib_wait_hook)(void* context);
MPIB_API void mpib_set_wait_hook(mpib_wait_hook hook, void* context);

/* The result of an operation that is done. Valid until the handle is released. */
typedef struct mpib_result {
    size_t struct_bytes;
    /* recv, or memory of the engine where recv was NULL (allgather, alltoall, reduce_scatter); for
     * MPIB_DEVICE that memory is on the device. */
    const void* data;
    size_t bytes;
    int64_t rows;                 /* length of the first dimension of the result */
    const int64_t* received_rows; /* allgather, alltoall: rows from each member, in their order */
    int members;
    int last_joined; /* join: the rank that joined last; otherwise -1 */
} mpib_result;

/* Fails with MPIB_ERROR_INVALID_ARGUMENT if the operation is not done or the handle is unknown. */
MPIB_API mpib_status mpib_get_result(mpib_handle handle, mpib_result* result);

/* Frees the handle. Waits first if the operation is not done. Unknown handles are refused. */
MPIB_API mpib_status mpib_release(mpib_handle handle);

/*
 * Submits, waits and releases. Runs inline where the plan allows; this is the fastest way for small
 * vectors. recv must not be NULL, unless recv_bytes is MPIB_NO_BYTES.
 */
MPIB_API mpib_status mpib_call(const mpib_operation* operation);

/*
 * Says that this rank has no more data. Until all ranks of the job have joined, this rank takes
 * part in allreduces of the world with zeros (for MIN, MAX, PRODUCT, AND and OR: with the neutral
 * element). Other operations of the world fail on the ranks that submit them. Blocks until every
 * rank has joined. *last_rank (last_rank may be NULL) is the rank that joined last, or the highest
 * of several that joined together. MPIB_AVERAGE divides by the number of all ranks. Operations of
 * other process sets are not affected: one that a joined rank has not submitted waits until all
 * have joined and that rank submits it.
 */
MPIB_API mpib_status mpib_join(int* last_rank);

/*
 * The device of this rank's tensors: CUDA's ordinal, or -1 for host memory. The first tensor
 * decides on it. A rank that takes part in operations on device memory before it has had one,
 * because it has joined or its tensors have had no elements, needs to know it earlier. It then
 * takes the one that is given here; otherwise the one of a `place`; otherwise the one that is
 * current for the calling thread; otherwise one of this host's by its local rank. If its tensors
 * are elsewhere after all, they are refused. set: fails if the device does not exist, or if another
 * one was decided on.
 */
#define MPIB_DEVICE_UNKNOWN (-2)
MPIB_API mpib_status mpib_set_device(int device);
MPIB_API int mpib_device(void);

/*
 * A place in the order of this rank's device, which outlives the handle. mark: that of an operation
 * on device memory that mpib_wait() has found under way; 0 for any other. reached: returns 1 when
 * the device has finished that operation and everything before it, 0 when it has not, and -1 when
 * that will never be known, because the engine has failed. Whoever frees buffers otherwise than in
 * the order of `stream` must keep them until 1.
 */
MPIB_API int64_t mpib_device_mark(mpib_handle handle);
MPIB_API int mpib_device_reached(int64_t mark);

/*
 * Process sets. add: collective over all ranks of the job, which must pass the same ranks in
 * ascending order. If a set with the same members exists already, all ranks get
 * MPIB_ERROR_INVALID_ARGUMENT. At most 255 of these sets exist at a time. remove: collective over
 * all ranks too. The world cannot be removed. Operations that are in flight in the set fail.
 */
MPIB_API mpib_status mpib_process_set_add(const int* ranks, int count, int* id);
MPIB_API mpib_status mpib_process_set_remove(int id);
/*
 * A set that only its members know, for programs in which the other ranks cannot take part in
 * mpib_process_set_add(). open: all members must pass the same ranks, in ascending order, and the
 * same id, from MPIB_FIRST_PRIVATE_SET to MPIB_LAST_PRIVATE_SET; they must have agreed on one that
 * is free on each of them, with messages for example (mpi_bridge_messages.h). close: only for this
 * rank, which can submit nothing more to the set; operations in flight go on. Both return without
 * waiting for the other members. The id is free again when all members have closed the set and
 * nothing is in flight in it; if a member ends without closing it, never. Such a set may have the
 * same members as another set, and does not support device memory yet.
 */
#define MPIB_FIRST_PRIVATE_SET 256
#define MPIB_LAST_PRIVATE_SET 511
MPIB_API mpib_status mpib_process_set_open(const int* ranks, int count, int id);
MPIB_API mpib_status mpib_process_set_close(int id);
/* Returns 1 when mpib_process_set_open() is possible with this id on this rank, otherwise 0. */
MPIB_API int mpib_process_set_is_free(int id);
/* The index of this rank in the set, -1 when it is not a member, or -2 when the set is unknown. */
MPIB_API int mpib_process_set_rank(int id);
/* The number of members, or -2 when the set is unknown. */
MPIB_API int mpib_process_set_size(int id);
/* Writes the members in ascending order, at most `room` of them. Returns the number of members, or
 * -2 when the set is unknown. */
MPIB_API int mpib_process_set_ranks(int id, int* ranks, int room);
/* Writes the ids in use in ascending order, at most `room` of them. Returns the number of ids in
 * use. */
MPIB_API int mpib_process_set_ids(int* ids, int room);

/*
 * Starts to write a timeline (Chrome trace format, for chrome://tracing or Perfetto) of this rank
 * to PATH.RANK.json; `mpi_bridge_timeline merge` joins the files of all ranks. Not collective.
 * MPI_BRIDGE_TIMELINE=PATH starts it in mpib_init(). Fails with MPIB_ERROR_INVALID_ARGUMENT when
 * the file cannot be written or a timeline is being written already.
 */
MPIB_API mpib_status mpib_timeline_start(const char* path);
/* Completes the file. Returns MPIB_OK if there is no timeline. */
MPIB_API mpib_status mpib_timeline_stop(void);

/*
 * What operations on device memory can use in this process, before or after mpib_init(). CUDA is
 * not initialised, so that the process may still fork.
 */
/* Returns 1 if the library of the CUDA driver can be loaded, otherwise 0. */
MPIB_API int mpib_cuda_installed(void);
/* Returns the version code of the NCCL in this process (22809 is 2.28.9). It is 0 if no NCCL 2.20
 * or newer has been loaded yet (by a framework, by an operation, or because MPI_BRIDGE_NCCL_LIBRARY
 * names it), or if there is no CUDA driver. */
MPIB_API int mpib_nccl_version(void);

/* What this rank has done since mpib_init(), by kind (the index is an mpib_kind), blocking calls
 * included. */
typedef struct mpib_counters {
    size_t struct_bytes;
    uint64_t operations[MPIB_KIND_COUNT]; /* completed successfully */
    uint64_t failures[MPIB_KIND_COUNT];
    uint64_t bytes[MPIB_KIND_COUNT];       /* of the send buffers */
    uint64_t collectives[MPIB_KIND_COUNT]; /* collectives that were run: a bucket counts once */
    /* The bytes that each rank must move in both directions at least, as nccl-tests define bus
     * bandwidth: bus_bytes / transfer_nanoseconds is the bus bandwidth in GB/s. */
    uint64_t bus_bytes[MPIB_KIND_COUNT];
    uint64_t transfer_nanoseconds[MPIB_KIND_COUNT]; /* like bus_bytes, without device memory */
    uint64_t queued_nanoseconds;      /* from submission here until submission on all ranks */
    uint64_t negotiation_nanoseconds; /* in control rounds */
    uint64_t pack_nanoseconds;        /* into buckets */
    uint64_t unpack_nanoseconds;      /* out of buckets */
    uint64_t negotiation_rounds;
    uint64_t planned_buckets; /* run without negotiation */
    uint64_t plans_made;
    uint64_t plans_broken;
    uint64_t inline_buckets; /* of planned_buckets, those that a waiting thread has run */
} mpib_counters;

/* struct_bytes must be set. */
MPIB_API mpib_status mpib_read_counters(mpib_counters* counters);

#ifdef __cplusplus
}
#endif

#endif /* MPI_BRIDGE_ENGINE_H */
