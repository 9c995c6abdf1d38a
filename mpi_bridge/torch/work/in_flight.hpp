// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "library.hpp"

namespace mpi_bridge::torch {

/// An operation of the engine or a message, and the memory that it uses, until it is released.
///
/// The destructor waits for nothing: what is not done then is left behind.
/// One thread at a time may use an object, but poll() may be called beside wait().
class InFlight {
  public:
    /// Hands an operation to the engine. The tensors are the memory of `operation`.
    static InFlight submit(const mpib_operation& operation, std::vector<at::Tensor> memory);
    /// Sends the tensor's bytes; done when they are received. It must be contiguous, on the host.
    static InFlight send(at::Tensor tensor, int to, const std::string& channel, std::int64_t tag);
    /// Receives from a rank of the job, or from MPIB_ANY_RANK.
    static InFlight receive(at::Tensor tensor, int source, const std::string& channel,
                            std::int64_t tag);

    InFlight(InFlight&& other) noexcept;
    InFlight& operator=(InFlight&&) = delete;
    ~InFlight();

    /// Whether it is done, successfully or not. On the device: whether that has finished it.
    [[nodiscard]] bool poll() const;

    /// Waits for the end, on the device until it is under way; throws its error. `seconds` > 0
    /// limits the wait: then MPIB_ERROR_TIMEOUT is thrown, and it goes on.
    void wait(double seconds = 0.0);

    /// Lets go of the name; the memory goes with this object. Waits if it is not done.
    void release();

    /// Gives it up without waiting: the name stays in use, and the memory is kept, until it is
    /// done. A receive that nothing has come for is withdrawn.
    void leave_behind();

    /// The engine's result; valid until the release.
    [[nodiscard]] mpib_result result() const;

    /// The rank on the other side of a message.
    [[nodiscard]] int peer() const;

    [[nodiscard]] bool is_message() const { return kind_ != Kind::operation; }

  private:
    enum class Kind { operation, send, receive };

    InFlight(Kind kind, std::int64_t number, std::vector<at::Tensor> memory);
    static InFlight post(Kind kind, at::Tensor tensor, int peer, const std::string& channel,
                         std::int64_t tag);
    void wait_for_operation(double seconds);
    void wait_for_message(double seconds) const;
    void note_end_on_device();
    [[nodiscard]] std::int64_t live_number() const;

    Kind kind_;
    std::int64_t number_;  // 0: released
    std::int64_t session_;
    std::vector<at::Tensor> memory_;
    int process_set_ = MPIB_WORLD;
    bool on_device_ = false;
    bool is_ordered_ = true;   // whether the stream waits for the operation
    bool may_run_on_ = false;  // whether the device may go on with it although it has failed
    bool is_left_ = false;     // whether a signal has ended the last wait
};

}  // namespace mpi_bridge::torch
