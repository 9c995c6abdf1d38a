// SPDX-License-Identifier: Apache-2.0
//
// The backend "mpi_bridge" of torch.distributed in C++.
//
//   library     the functions of libmpi_bridge, its errors, and what outlives a handle
//   work/       in_flight  one operation of the engine or one message, until it is released
//               work       what torch gets for a call: c10d::Work, and a future of it
//               completer  the thread that completes a group's futures, in order
//               works      the Works of a group that are not known to be done
//               threads    threads that nobody joins, but that must end before Python does
//   naming      names for operations that torch matches by their order
//   reductions  torch's reductions and element types in the engine's terms
//   staging     shared memory in place of large tensors of the host
//   streams     the order of CUDA streams, through torch's own interface
//   arguments   what the arguments of an operation must be
//   pending     the operations of one call, and what is to be done with their results
//   backend     c10d::Backend: a group, the order of its operations, and its end
//   collectives its functions, one for each collective
//   messages    send, receive, and the barrier that names who is missing
//   sparse      the allreduce of sparse tensors
//   python      what the backend needs of Python: signals, errors, process sets
//   module      what Python sees
//
// It is compiled on the machine that uses it, against its torch (mpi_bridge/torch_native.py), and
// does the same as the backend in Python (mpi_bridge/torch_distributed), name by name: ranks with
// either work together. No function here needs Python's interpreter lock, and none is called with
// it but where that is said.
#pragma once

#include <cstdint>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mpi_bridge_engine.h"
#include "mpi_bridge_messages.h"

namespace mpi_bridge::torch {

#define MPI_BRIDGE_TORCH_FUNCTIONS(F) \
    F(alloc)                          \
    F(call)                           \
    F(device_mark)                    \
    F(free)                           \
    F(get_result)                     \
    F(last_error)                     \
    F(local_size)                     \
    F(message_peer)                   \
    F(message_poll)                   \
    F(message_receive)                \
    F(message_release)                \
    F(message_send)                   \
    F(message_wait)                   \
    F(poll)                           \
    F(release)                        \
    F(set_timeout)                    \
    F(submit)                         \
    F(wait)

/// The functions mpib_*, of the library that the Python package has loaded.
struct Library {
#define F(name) decltype(&mpib_##name) name = nullptr;
    MPI_BRIDGE_TORCH_FUNCTIONS(F)
#undef F
};

/// The names of the functions, without "mpib_".
std::vector<std::string> function_names();
/// Takes the functions by the addresses of these names.
void set_library(const std::unordered_map<std::string, std::uintptr_t>& addresses);
const Library& library();

/// An error of the library; Python sees the class of mpi_bridge.errors for its status.
class Error : public std::runtime_error {
  public:
    Error(mpib_status status, const std::string& text)
        : std::runtime_error(text), status_(status) {}

    [[nodiscard]] mpib_status status() const { return status_; }

  private:
    mpib_status status_;
};

/// Throws the calling thread's last error unless the status is MPIB_OK.
void check(mpib_status status);

// Handles are valid from mpib_init() to mpib_finalize(). Python says when such a session ends and
// when the next one has begun, by which the library has let go of all memory of the one before.
std::int64_t session();
void session_has_ended();
void session_has_begun();

/// While this lives, that session does not end; throws if it has ended.
std::shared_lock<std::shared_mutex> use_of_session(std::int64_t of_session);

/// Keeps memory that the library may still use, until the next session has begun.
void keep_until_init(std::vector<at::Tensor> tensors, std::int64_t of_session);

/// Notes how far the device must come before this process may leave the step.
void note_mark(int process_set, std::int64_t mark);
/// The latest marks of this session, by process set.
std::unordered_map<int, std::int64_t> latest_marks();

}  // namespace mpi_bridge::torch
