// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C API that are passed on to the messenger.
#include <fmt/core.h>

#include "api/with_engine.hpp"
#include "messages/messenger.hpp"
#include "mpi_bridge_messages.h"

namespace mpi_bridge {
namespace {

static_assert(MPIB_ANY_RANK == Messenger::any_rank);

Done check(const char* call, const mpib_message* message, const mpib_message_handle* handle) {
    if (message == nullptr || handle == nullptr)
        return invalid(fmt::format("{}: message or handle is NULL", call));
    if (message->struct_bytes != sizeof *message) {
        return invalid(
            fmt::format("{}: struct_bytes of the message is {}, not {}; was the program "
                        "compiled with another mpi_bridge_messages.h",
                        call, message->struct_bytes, sizeof *message));
    }
    if (message->memory == nullptr && message->bytes != 0)
        return invalid(fmt::format("{}: memory is NULL", call));
    return {};
}

std::string_view channel_of(const mpib_message& message) {
    return message.channel == nullptr ? std::string_view() : message.channel;
}

}  // namespace
}  // namespace mpi_bridge

using mpi_bridge::channel_of;
using mpi_bridge::check;
using mpi_bridge::Done;
using mpi_bridge::Engine;
using mpi_bridge::number_from_engine;
using mpi_bridge::with_engine;

mpib_status mpib_message_send(const mpib_message* message, mpib_message_handle* handle) {
    return with_engine("mpib_message_send", [=](Engine& engine) -> Done {
        TRY(check("mpib_message_send", message, handle));
        *handle = TRY(engine.messenger().send(
            message->peer, channel_of(*message), message->tag,
            std::span(static_cast<const std::byte*>(message->memory), message->bytes)));
        return {};
    });
}

mpib_status mpib_message_receive(const mpib_message* message, mpib_message_handle* handle) {
    return with_engine("mpib_message_receive", [=](Engine& engine) -> Done {
        TRY(check("mpib_message_receive", message, handle));
        *handle = TRY(engine.messenger().receive(
            message->peer, channel_of(*message), message->tag,
            std::span(static_cast<std::byte*>(message->memory), message->bytes)));
        return {};
    });
}

int mpib_message_poll(mpib_message_handle handle) {
    return number_from_engine(-1, [=](Engine& engine) {
        const auto done = engine.messenger().poll(handle);
        return !done ? -1 : (*done ? 1 : 0);
    });
}

mpib_status mpib_message_wait(mpib_message_handle handle, double seconds) {
    return with_engine("mpib_message_wait",
                       [=](Engine& engine) { return engine.messenger().wait(handle, seconds); });
}

int mpib_message_peer(mpib_message_handle handle) {
    constexpr int unknown = -2;
    return number_from_engine(
        unknown, [=](Engine& engine) { return engine.messenger().peer(handle).value_or(unknown); });
}

mpib_status mpib_message_release(mpib_message_handle handle) {
    return with_engine("mpib_message_release",
                       [=](Engine& engine) { return engine.messenger().release(handle); });
}
