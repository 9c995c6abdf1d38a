/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between two ranks, beside the collectives of mpi_bridge.h and mpi_bridge_engine.h.
 *
 *  - A message matches the oldest receive with its channel and tag that names its sender or any
 *    rank. Messages from one rank with equal channels and tags are received in the order in which
 *    they were sent. The channel is any text. Equal texts are the same channel, so parts of a
 *    program that must not take each other's messages use different ones.
 *  - Sending is asynchronous, and a send completes only when its receive has been posted and the
 *    data has left. So no rank has to keep data that nobody has asked for, except that of messages
 *    of up to 1 KiB, which travels with the offer. A rank keeps up to 64 KiB of it for each sender.
 *    Beyond that, the data of short messages stays with the sender too, and only offers travel. Two
 *    ranks that each wait for a send before they post their receive wait for ever.
 *  - Messages do not depend on collectives, and neither waits for the other. Any thread may call
 *    any function.
 *  - Lengths must be equal. If they differ, the send and the receive both fail with
 *    MPIB_ERROR_MISMATCH, with both numbers in the text. Nothing is written in that case, and other
 *    messages go on.
 *  - The deadline (mpib_set_timeout()) counts from the beginning of a wait, and waits with less
 *    than a second between them are one wait. If the other side has not come by then, the message
 *    fails alone with MPIB_ERROR_TIMEOUT, and a receive that matches a send which has failed in
 *    this way fails likewise. If data stops on its way, all messages, collectives and later calls
 *    of this rank fail, as with collectives; so they do when a peer is lost.
 *  - A message fails alone with MPIB_ERROR_PEER_LOST when its other side, or the rank that a
 *    receive names, has called mpib_finalize() before. Only a rank that this rank has exchanged
 *    messages or collectives with is noticed in this way.
 *  - In both cases a receive of up to 1 KiB can still succeed until this rank has heard that its
 *    sender has given up or left.
 *  - Buffers belong to the caller, are host memory, and must be neither written (send) nor accessed
 *    (receive) until the message is done. They need no alignment. A pointer to zero bytes may be
 *    NULL.
 *  - In a child made by fork() every function fails as mpi_bridge.h says.
 */
#ifndef MPI_BRIDGE_MESSAGES_H
#define MPI_BRIDGE_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "mpi_bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a receive: from whichever rank sends first. */
#define MPIB_ANY_RANK (-1)

/* One message. Set unused fields to zero; struct_bytes must be sizeof(mpib_message). */
typedef struct mpib_message {
    size_t struct_bytes;
    int peer;            /* the other rank of the job: not this one */
    const char* channel; /* copied; NULL is "" */
    int64_t tag;
    void* memory; /* only read by a send */
    size_t bytes;
} mpib_message;

/* Names a message in flight; never 0, and not a handle of the engine. */
typedef int64_t mpib_message_handle;

/* Both return at once. After MPIB_OK the handle must be released once. */
MPIB_API mpib_status mpib_message_send(const mpib_message* message, mpib_message_handle* handle);
MPIB_API mpib_status mpib_message_receive(const mpib_message* message, mpib_message_handle* handle);

/* Returns 1 when the message is done (successfully or not), 0 when it is not, -1 when the handle is
 * unknown. */
MPIB_API int mpib_message_poll(mpib_message_handle handle);

/* Waits until the message is done, and returns its status. `seconds` > 0 limits the wait: when that
 * time has passed, MPIB_ERROR_TIMEOUT is returned and the message goes on. */
MPIB_API mpib_status mpib_message_wait(mpib_message_handle handle, double seconds);

/* The rank on the other side, -1 while a receive from any rank has not been matched, or -2 when the
 * handle is unknown. */
MPIB_API int mpib_message_peer(mpib_message_handle handle);

/* Frees the handle. A receive that no message has matched is withdrawn. Any other message that is
 * not done is waited for. */
MPIB_API mpib_status mpib_message_release(mpib_message_handle handle);

#ifdef __cplusplus
}
#endif

#endif /* MPI_BRIDGE_MESSAGES_H */
