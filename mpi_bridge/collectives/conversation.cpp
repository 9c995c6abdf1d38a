// SPDX-License-Identifier: Apache-2.0
#include "collectives/conversation.hpp"

#include <fmt/core.h>

namespace mpi_bridge {

Outcome<Conversation::Pending> Conversation::send(int to, std::uint32_t step, ConstBytes data) {
    Pending pending{0, global(to), step, false, true};
    auto request = transport_.post_send(pending.peer, tag(step), data);
    if (!request) return explain(std::move(request).error(), pending);
    pending.request = *request;
    return pending;
}

Outcome<Conversation::Pending> Conversation::receive(int from, std::uint32_t step, Bytes data) {
    Pending pending{0, global(from), step, true, true};
    auto request = transport_.post_receive(pending.peer, tag(step), data);
    if (!request) return explain(std::move(request).error(), pending);
    pending.request = *request;
    return pending;
}

Done Conversation::wait(Pending& pending) {
    if (!pending.posted) return {};
    pending.posted = false;
    auto done = transport_.wait(pending.request, Deadline::in(call_.patience));
    if (!done) return explain(std::move(done).error(), pending);
    return {};
}

Done Conversation::wait_all(std::span<Pending> pending) {
    for (Pending& one : pending)
        TRY(wait(one));
    return {};
}

Done Conversation::exchange(int to, ConstBytes out, int from, Bytes in, std::uint32_t step) {
    auto incoming = TRY(receive(from, step, in));
    auto outgoing = TRY(send(to, step, out));
    TRY(wait(incoming));
    return wait(outgoing);
}

tl::unexpected<Failure> Conversation::mismatch(int from, std::size_t sent,
                                               std::size_t expected) const {
    Pending message;
    message.peer = global(from);
    message.receives = true;
    return explain(
        {MPIB_ERROR_MISMATCH, fmt::format("it sent {} bytes, expected {}", sent, expected)},
        message);
}

tl::unexpected<Failure> Conversation::explain(Failure failure, const Pending& pending) const {
    const auto where =
        fmt::format("{} (call {} of this process), step {}, rank {} of {}", call_.name,
                    call_.sequence, pending.step, transport_.rank(), transport_.size());
    const char* direction = pending.receives ? "receiving from" : "sending to";
    std::string text;
    if (failure.status == MPIB_ERROR_TIMEOUT) {
        text = fmt::format(
            "{}: timed out after {:g} s {} rank {}: that rank is late, stuck, or "
            "did not make this call ({})",
            where, call_.patience.count(), direction, pending.peer, failure.text);
    } else if (failure.status == MPIB_ERROR_PEER_LOST) {
        text = fmt::format(
            "{}: lost {} while {} rank {}; look for the first error of the lost "
            "rank",
            where, failure.text, direction, pending.peer);
    } else {
        text = fmt::format("{}: {} rank {}: {}", where, direction, pending.peer, failure.text);
    }
    failure.text = std::move(text);
    return tl::unexpected(std::move(failure));
}

}  // namespace mpi_bridge
