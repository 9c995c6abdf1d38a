// SPDX-License-Identifier: Apache-2.0
#include "engine/device_work.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "engine/negotiation/agreement.hpp"

namespace mpi_bridge {
namespace {

// How long the work in flight may take to finish when the job or the process set ends.
constexpr Seconds longest_close{30};
// How long one wait in the group may take; a group that has failed reports that itself.
constexpr Seconds longest_look{60};

// Returns this rank's number among the ranks of its host.
int local_index(const Group& world) {
    const auto own = world.hosts.begin() + world.own;
    return static_cast<int>(std::count(world.hosts.begin(), own, *own));
}

DeviceSession::Options options_for(ProcessSetState& state) {
    DeviceSession::Options options;
    options.name = fmt::format("process set {}", state.process_set);
    options.path = state.host.parts().settings.device_path;
    options.open = [&state] { return state.open(Channel::Lane::device); };
    options.timeout = state.host.parts().timeout;
    options.own_device = &state.host.devices().own_device();
    options.local_index = local_index(state.host.parts().world);
    return options;
}

}  // namespace

DeviceWork::DeviceWork(ProcessSetState& state) : state_(state), session_(options_for(state)) {}

DeviceWork::~DeviceWork() {
    // Unreleased results still own memory. The streams it belongs to may be gone by now, so device
    // memory is left to the end of the process.
    if (session_.on_host()) return;
    for (OwnRequest& request : state_.member.requests)
        static_cast<void>(request.device_owned.release());
}

Outcome<DeviceNote> DeviceWork::admit(const mpib_operation& operation) {
    if (!is_on_device(operation)) return DeviceNote();
    TRY(session_.admit(operation));
    return session_.note({operation.stream});
}

Outcome<DeviceExecutor::Turn> DeviceWork::take_turn(Communicator& host,
                                                    const Communicator::Call& call) {
    return state_.host.devices().take_turn(
        state_.process_set,
        [&](TotalOrder::Time own) -> Outcome<TotalOrder::Time> {
            Word word{.mask = 0, .number = own};
            TRY(agree(host, call.name, state_.timeout(), {&word, 1}));
            return word.number;
        },
        [this] { return watch(); });
}

Done DeviceWork::run(Communicator& host, const Communicator::Call& call, const Descriptor& what,
                     std::span<OwnRequest* const> requests, std::span<const std::size_t> counts) {
    session_.begin();
    const auto turn = TRY(take_turn(host, call));
    return enqueue(host, call, what, requests, counts);
}

Done DeviceWork::enqueue(Communicator& host, const Communicator::Call& call, const Descriptor& what,
                         std::span<OwnRequest* const> requests,
                         std::span<const std::size_t> counts) {
    if (!session_.is_open()) {
        state_.trace().timeline.begin(state_.shown(Phase::init_nccl));
        auto opened = session_.open(host);
        state_.trace().timeline.end(state_.shown(Phase::init_nccl));
        TRY(std::move(opened));
        execution_.emplace(state_.host.devices(), session_, state_.group, state_.trace(),
                           state_.process_set);
    }
    if (what.kind != Kind::allreduce) return execution_->run_single(host, call, *requests.front());
    return execution_->allreduce(call.name, what, requests, counts);
}

Done DeviceWork::wait(ProcessSetState::Lock& lock, const OwnRequest& request, double seconds) {
    const DeviceTicket ticket = request.ticket;
    const DeviceStream stream{request.stream};
    const std::string what = state_.member.described(request);
    lock.unlock();
    Done done;
    do {
        done = session_.make_stream_wait(ticket, stream,
                                         seconds > 0 ? Seconds(seconds) : longest_look);
    } while (!done && done.error().status == MPIB_ERROR_TIMEOUT && !(seconds > 0));
    if (done) {
        lock.lock();
        return done;
    }
    if (done.error().status == MPIB_ERROR_TIMEOUT && seconds > 0 && session_.poll({}).has_value()) {
        lock.lock();
        return fail(MPIB_ERROR_TIMEOUT,
                    fmt::format("{} is not done after {} s, and goes on", what, seconds));
    }
    // The first failure explains more than this one.
    Failure cause = state_.fail(done.error());
    lock.lock();
    return tl::unexpected(std::move(cause));
}

bool DeviceWork::poll(ProcessSetState::Lock& lock, const DeviceTicket& ticket) {
    lock.unlock();
    const auto reached = session_.poll(ticket);
    if (!reached) state_.fail(reached.error());
    lock.lock();
    return !reached || *reached;
}

std::optional<bool> DeviceWork::reached(const DeviceTicket& ticket) {
    if (!session_.is_open()) return std::nullopt;
    const auto reached = session_.poll(ticket);
    if (reached) return *reached;
    state_.fail(reached.error());
    return std::nullopt;
}

Done DeviceWork::watch() {
    return session_.is_open() ? session_.watch() : Done();
}

Seconds DeviceWork::until_watch(Seconds otherwise) const {
    return session_.is_open() && session_.busy()
               ? std::min(otherwise, DeviceExecutor::between_looks)
               : otherwise;
}

void DeviceWork::close() {
    if (!session_.is_open()) return;
    {
        ProcessSetState::Lock lock(state_.mutex);
        state_.member.plan.frozen = true;
        state_.changed.wait(lock, [this] { return !state_.member.plan.busy; });
    }
    session_.close(Deadline::in(longest_close));
}

}  // namespace mpi_bridge
