// SPDX-License-Identifier: Apache-2.0
#include "work/in_flight.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "python.hpp"

namespace mpi_bridge::torch {

namespace {

// Waits for messages do not call the library's hook for signals.
constexpr double slice_seconds = 0.5;

// What nobody waits for any more. Never destroyed: the library may use the memory to the end.
struct LeftBehind {
    std::mutex mutex;
    std::vector<InFlight> in_flight;
};

LeftBehind& left_behind() {
    static auto* const all = new LeftBehind;
    return *all;
}

}  // namespace

InFlight::InFlight(Kind kind, std::int64_t number, std::vector<at::Tensor> memory)
    : kind_(kind), number_(number), session_(session()), memory_(std::move(memory)) {}

InFlight::InFlight(InFlight&& other) noexcept
    : kind_(other.kind_),
      number_(std::exchange(other.number_, 0)),
      session_(other.session_),
      memory_(std::move(other.memory_)),
      process_set_(other.process_set_),
      on_device_(other.on_device_),
      is_ordered_(other.is_ordered_),
      may_run_on_(other.may_run_on_),
      is_left_(other.is_left_) {}

InFlight::~InFlight() {
    if (number_ == 0) {
        return;
    }
    try {
        if (session_ == session() && !poll()) {
            leave_behind();
        } else {
            release();
        }
    } catch (const std::exception&) {
        // The operation's own error was, or would have been, thrown by wait().
    }
}

InFlight InFlight::submit(const mpib_operation& operation, std::vector<at::Tensor> memory) {
    mpib_handle number = 0;
    check(library().submit(&operation, &number));
    InFlight made(Kind::operation, number, std::move(memory));
    made.process_set_ = operation.process_set;
    made.on_device_ = (operation.flags & MPIB_DEVICE) != 0;
    made.is_ordered_ = !made.on_device_;
    return made;
}

InFlight InFlight::send(at::Tensor tensor, int to, const std::string& channel, std::int64_t tag) {
    return post(Kind::send, std::move(tensor), to, channel, tag);
}

InFlight InFlight::receive(at::Tensor tensor, int source, const std::string& channel,
                           std::int64_t tag) {
    return post(Kind::receive, std::move(tensor), source, channel, tag);
}

InFlight InFlight::post(Kind kind, at::Tensor tensor, int peer, const std::string& channel,
                        std::int64_t tag) {
    const mpib_message message{.struct_bytes = sizeof(mpib_message),
                               .peer = peer,
                               .channel = channel.c_str(),
                               .tag = tag,
                               .memory = tensor.data_ptr(),
                               .bytes = tensor.nbytes()};
    mpib_message_handle number = 0;
    check(kind == Kind::send ? library().message_send(&message, &number)
                             : library().message_receive(&message, &number));
    return {kind, number, {std::move(tensor)}};
}

std::int64_t InFlight::live_number() const {
    if (number_ == 0 || session_ != session()) {
        throw Error(MPIB_ERROR_INVALID_ARGUMENT,
                    is_message() ? "this message is released, or from before shutdown()"
                                 : "this operation is released, or from before shutdown()");
    }
    return number_;
}

bool InFlight::poll() const {
    const auto number = live_number();
    return (is_message() ? library().message_poll(number) : library().poll(number)) != 0;
}

void InFlight::wait(double seconds) {
    if (is_message()) {
        wait_for_message(seconds);
    } else {
        wait_for_operation(seconds);
    }
}

void InFlight::wait_for_operation(double seconds) {
    const auto status = library().wait(live_number(), seconds);
    switch (status) {
        case MPIB_OK:
            is_ordered_ = true;
            is_left_ = false;
            return;
        case MPIB_ERROR_INVALID_ARGUMENT:
        case MPIB_ERROR_MISMATCH:
        case MPIB_ERROR_TIMEOUT:
            // Nothing was enqueued, or the operation goes on.
            break;
        case MPIB_ERROR_INTERRUPTED:
            is_left_ = true;
            break;
        default:
            may_run_on_ = true;
            break;
    }
    check(status);
}

void InFlight::wait_for_message(double seconds) const {
    auto left = seconds > 0 ? seconds : std::numeric_limits<double>::infinity();
    while (true) {
        const auto status = library().message_wait(live_number(), std::min(left, slice_seconds));
        if (status != MPIB_ERROR_TIMEOUT) {
            return check(status);
        }
        const Error late(status, library().last_error());
        left -= slice_seconds;
        // If the end has come since the slice was over, this error does not tell of it.
        if (poll()) {
            return check(library().message_wait(live_number(), 0.0));
        }
        if (left <= 0) {
            throw late;
        }
        python::check_signals();
    }
}

void InFlight::release() {
    if (number_ == 0) {
        return;
    }
    if (session_ != session()) {
        number_ = 0;
        keep_until_init(std::move(memory_), session_);
        return;
    }
    if (is_left_ && !poll()) {
        leave_behind();
        return;
    }
    if (!is_ordered_) {
        // Without it, the device could still use memory that is given back to an allocator.
        may_run_on_ = library().wait(number_, 0.0) != MPIB_OK || may_run_on_;
    }
    if (on_device_) {
        note_end_on_device();
    }
    const auto number = std::exchange(number_, 0);
    const auto status =
        is_message() ? library().message_release(number) : library().release(number);
    if (status != MPIB_OK) {
        keep_until_init(std::move(memory_), session_);
    }
    check(status);
}

/// Torch gives memory back in the order of the stream that the operation is in the order of.
void InFlight::note_end_on_device() {
    if (const auto mark = library().device_mark(number_); mark != 0) {
        note_mark(process_set_, mark);
    } else if (may_run_on_) {
        keep_until_init(std::move(memory_), session_);
    }
}

void InFlight::leave_behind() {
    if (number_ == 0) {
        return;
    }
    if (kind_ == Kind::receive) {
        release();  // withdraws it, if nothing has come
        return;
    }
    std::vector<InFlight> ended;  // destroyed without the lock
    const std::lock_guard lock(left_behind().mutex);
    auto& all = left_behind().in_flight;
    std::vector<InFlight> kept;
    for (auto& each : all) {
        const auto is_over = each.session_ != session() || each.poll();
        (is_over ? ended : kept).push_back(std::move(each));
    }
    kept.push_back(std::move(*this));
    std::swap(all, kept);
}

mpib_result InFlight::result() const {
    mpib_result found{};
    found.struct_bytes = sizeof found;
    check(library().get_result(live_number(), &found));
    return found;
}

int InFlight::peer() const {
    return library().message_peer(live_number());
}

}  // namespace mpi_bridge::torch
