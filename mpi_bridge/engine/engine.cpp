// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/operation_check.hpp"
#include "engine/process_set_engine.hpp"
#include "engine/process_sets.hpp"
#include "messages/messenger.hpp"

namespace mpi_bridge {
namespace {

// How long running operations may take to finish at shutdown: the first limit is for a good end,
// the second for their failure after the connections were broken.
constexpr Seconds longest_end{2};
constexpr Seconds longest_broken_end{10};

}  // namespace

Engine::Engine(EngineParts parts) {
    parts.tell_closed = [this](int to, int process_set) {
        return messenger_->tell_closed(to, process_set);
    };
    sets_ = std::make_unique<ProcessSets>(parts);
    Messenger::Parts own{.transport = parts.transport,
                         .waits = parts.waits,
                         .failure = parts.failure,
                         .timeout = parts.timeout,
                         .closed = nullptr};
    own.closed = [this](int peer, int process_set) { sets_->member_closed(process_set, peer); };
    messenger_ = std::make_unique<Messenger>(std::move(own));
}

Engine::~Engine() {
    static_cast<void>(shutdown());
}

Outcome<mpib_handle> Engine::submit(const mpib_operation& operation) {
    const auto engine = TRY(sets_->serving(operation));
    return engine->submit(operation);
}

Done Engine::call(const mpib_operation& operation) {
    const auto engine = TRY(sets_->serving(operation));
    mpib_operation waited_for = operation;
    waited_for.flags |= MPIB_WAITED_FOR;
    return engine->call(waited_for);
}

std::optional<bool> Engine::poll(mpib_handle handle) {
    const auto found = sets_->find(handle);
    return found ? found->engine->poll(found->handle) : std::nullopt;
}

Done Engine::wait(mpib_handle handle, double seconds) {
    const auto found = sets_->find(handle);
    return found ? found->engine->wait(found->handle, seconds) : unknown_handle();
}

Outcome<mpib_result> Engine::result(mpib_handle handle) {
    const auto found = sets_->find(handle);
    return found ? found->engine->result(found->handle) : unknown_handle();
}

Done Engine::release(mpib_handle handle) {
    const auto found = sets_->find(handle);
    return found ? found->engine->release(found->handle) : unknown_handle();
}

Outcome<int> Engine::join() {
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_JOIN;
    operation.name = "mpib_join";
    sets_->devices().own_device().suppose_current();
    const auto handle = TRY(submit(operation));
    const Done done = wait(handle, 0);
    const auto result = this->result(handle);
    (void)release(handle);
    if (!done) return tl::unexpected(done.error());
    if (!result) return tl::unexpected(result.error());
    return result->last_joined;
}

Done Engine::set_device(int device) {
    return sets_->devices().own_device().choose(device);
}

int Engine::device() {
    return sets_->devices().own_device().known();
}

std::int64_t Engine::device_mark(mpib_handle handle) {
    const auto found = sets_->find(handle);
    if (!found) return 0;
    return DeviceMark{found->handle.set, found->engine->device_ticket(found->handle)}.pack();
}

std::optional<bool> Engine::device_reached(std::int64_t mark) {
    const DeviceMark unpacked = DeviceMark::unpack(mark);
    ProcessSetEngine* const engine = sets_->numbered(unpacked.set);
    if (engine == nullptr || unpacked.ticket.number == 0) return std::nullopt;
    return engine->device_reached(unpacked.ticket);
}

Outcome<int> Engine::add_process_set(std::span<const int> ranks) {
    Descriptor change;
    change.kind = Kind::add_process_set;
    change.shape.assign(ranks.begin(), ranks.end());
    return sets_->change(change);
}

Done Engine::remove_process_set(int id) {
    if (id >= ProcessSets::first_private) {
        return invalid(
            "a process set that only its members know is ended by "
            "mpib_process_set_close()");
    }
    Descriptor change;
    change.kind = Kind::remove_process_set;
    change.shape.push_back(id);
    TRY(sets_->change(change));
    return {};
}

Done Engine::open_process_set(std::span<const int> ranks, int id) {
    return sets_->open({ranks.begin(), ranks.end()}, id);
}

Done Engine::close_process_set(int id) {
    return sets_->close(id);
}

std::optional<int> Engine::process_set_rank(int id) const {
    return sets_->own_index(id);
}

std::optional<std::vector<int>> Engine::process_set_ranks(int id) const {
    return sets_->ranks(id);
}

std::vector<int> Engine::process_set_ids() const {
    return sets_->ids();
}

bool Engine::process_set_is_free(int id) {
    return sets_->is_free(id);
}

void Engine::start() {
    sets_->start();
}

bool Engine::shutdown() {
    const Failure failure{MPIB_ERROR_NOT_INITIALIZED,
                          "mpib_finalize was called while the operation was in flight"};
    const auto ended = [this](Deadline deadline) {
        const bool sets_ended = sets_->ended(deadline);
        return messenger_->ended(deadline) && sets_ended;
    };
    messenger_->shutdown(failure);
    sets_->shutdown(failure);
    if (ended(Deadline::in(longest_end))) return true;
    sets_->parts().failure->fail(failure);
    return ended(Deadline::in(longest_broken_end));
}

}  // namespace mpi_bridge
