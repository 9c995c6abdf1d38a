// SPDX-License-Identifier: Apache-2.0
#include "api/library.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "api/guard.hpp"
#include "collectives/layout.hpp"
#include "core/fork_guard.hpp"
#include "core/log.hpp"
#include "reduce/reduction.hpp"
#include "trace/bus_bytes.hpp"
#include "trace/failure_record.hpp"
#include "trace/trace.hpp"
#include "transport/alone_transport.hpp"
#include "transport/open_transport.hpp"

namespace mpi_bridge {
namespace {

constexpr const char* address_key = "mpi_bridge.address";
// How long leaving may take: long enough to deliver what was sent, short enough to end by.
constexpr Seconds longest_goodbye{5};
// At exit another thread may be in a collective call that will never end.
constexpr Seconds longest_wait_for_threads{2};
// Reading the clock twice takes as long as a small call through shared memory, so only some of
// those are timed, each for all.
constexpr std::uint64_t small_bytes = 4096;
constexpr unsigned small_calls_per_sample = 16;

Outcome<std::unique_ptr<Transport>> join_network(Bootstrap& bootstrap, const std::string& network,
                                                 Seconds timeout) {
    const Topology& topology = bootstrap.topology();
    if (topology.size == 1) return std::make_unique<AloneTransport>();
    TransportWishes wishes;
    wishes.rank = topology.rank;
    wishes.size = topology.size;
    wishes.local_size = topology.local_size;
    wishes.network = network;
    wishes.publish = [&bootstrap, timeout](std::span<const std::byte> address) {
        return bootstrap.publish(address_key, address, Deadline::in(timeout));
    };
    wishes.fetch = [&bootstrap, timeout](int rank) {
        return bootstrap.fetch(address_key, rank, Deadline::in(timeout));
    };
    return open_transport(wishes);
}

}  // namespace

Library& Library::instance() {
    static auto* const library = new Library();
    return *library;
}

Seconds Library::timeout() const {
    const double override = timeout_override_;
    return override > 0 ? Seconds(override) : settings_.timeout;
}

Done Library::initialize() {
    const std::lock_guard lock(mutex_);
    if (topology_.load() != nullptr) return {};
    if (stuck_) {
        return fail(MPIB_ERROR_INTERNAL,
                    "mpib_init: threads have not left the library since mpib_finalize");
    }
    Done joined = without_exceptions([this] { return join_step(); });
    if (!joined) leave_step();
    return joined;
}

Done Library::join_step() {
    auto settings = settings_from_environment();
    if (!settings) return pass_on(std::move(settings));
    settings_ = std::move(*settings);
    if (auto chosen = choose_kernels(settings_.kernels); !chosen) return chosen;
    auto engine_wishes = engine_settings(process_environment);
    if (!engine_wishes) return pass_on(std::move(engine_wishes));
    engine_settings_ = *engine_wishes;
    owner_ = getpid();
    if (auto guarded = guard_forks(); !guarded) return guarded;

    auto bootstrap = connect(Deadline::in(timeout()));
    if (!bootstrap) return pass_on(std::move(bootstrap));
    bootstrap_ = std::move(*bootstrap);
    // After the connection, whose own exit handler then runs later: the launcher hears last of all
    // that this process leaves.
    if (!exit_handler_set_) exit_handler_set_ = std::atexit(at_exit) == 0;
    auto transport = join_network(*bootstrap_, settings_.network, timeout());
    if (!transport) return pass_on(std::move(transport));
    transport_ = std::move(*transport);

    if (bootstrap_->topology().local_size > 1) {
        auto heap = heap_.open();
        if (!heap) log(LogLevel::info, "collectives will copy: " + heap.error().text);
    }
    auto direct = open_communicator(everybody(), {Channel::Lane::direct, MPIB_WORLD});
    if (!direct) return pass_on(std::move(direct));
    direct_ = std::move(*direct);

    make_engine();

    trace().counters.reset();
    const Topology& where = bootstrap_->topology();
    forget_failure(process_environment, where.rank);
    auto timeline = start_timeline_from_environment(process_environment, where.rank, where.size);
    if (!timeline) return timeline;
    launcher_ = bootstrap_.get();
    topology_ = &topologies_.emplace_back(bootstrap_->topology());
    return {};
}

Group Library::everybody() const {
    const Topology& topology = bootstrap_->topology();
    std::vector<int> ranks(static_cast<std::size_t>(topology.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return make_group(std::move(ranks), topology.rank, topology.host_of_rank);
}

Outcome<std::unique_ptr<Communicator>> Library::open_communicator(Group group, Channel channel) {
    Communicator::Options options;
    options.group = std::move(group);
    options.channel = channel;
    options.shared_memory = channel.lane != Channel::Lane::control;
    options.heap = heap_.get();
    options.registry = &communicators_;
    options.settings = settings_;
    return Communicator::open(*transport_, std::move(options));
}

void Library::make_engine() {
    failure_.reset();
    broken_ = false;
    EngineParts parts;
    parts.world = everybody();
    parts.open = [this](const Group& group, Channel::Lane lane, unsigned id) {
        return open_communicator(group, {lane, id});
    };
    parts.wake = [this] { transport_->wake(); };
    parts.allocate = [this](std::size_t bytes) {
        SharedHeap* const heap = heap_.get();
        if (heap == nullptr) return Bytes();
        auto memory = heap->allocate(bytes);
        return memory ? Bytes(static_cast<std::byte*>(*memory), bytes) : Bytes();
    };
    parts.free = [this](Bytes memory) { heap_.get()->free(memory.data()); };
    parts.timeout = [this] { return timeout(); };
    parts.on_failure = [this](const Failure& failure) { break_off(failure); };
    parts.trace = &trace();
    parts.settings = engine_settings_;
    engine_ = std::make_unique<Engine>(std::move(parts));
    engine_in_use_ = engine_.get();
}

// Ends the engine's threads and the calls that are in it. False if that takes too long.
bool Library::end_engine() {
    if (engine_ == nullptr) return true;
    engine_in_use_ = nullptr;
    if (!engine_->shutdown()) return false;
    // What these calls wait for has ended with the engine.
    const Deadline deadline = Deadline::in(longest_wait_for_threads);
    while (engine_calls_ != 0) {
        if (deadline.passed()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

void Library::leave_step() {
    topology_ = nullptr;
    launcher_ = nullptr;
    const bool ended = end_engine();
    if (auto completed = trace().timeline.stop(); !completed) {
        log(LogLevel::warning, completed.error().text);
    }
    if (!ended) {
        // They reach the transport and the heap through this object, so all of it stays.
        stuck_ = true;
        log(LogLevel::warning,
            "threads are still in calls of the library, so what they use is kept until the process "
            "ends");
        return;
    }
    engine_.reset();
    direct_.reset();
    heap_.close();
    if (transport_ != nullptr) transport_->close(Deadline::in(longest_goodbye));
    transport_.reset();
    bootstrap_.reset();
}

Done Library::finalize() {
    const std::lock_guard lock(mutex_);
    if (topology_.load() != nullptr && getpid() == owner_) leave_step();
    return {};
}

void Library::at_exit() {
    Library& library = instance();
    if (library.owner_ != getpid()) return;
    std::unique_lock lock(library.mutex_, std::defer_lock);
    // Else the transport is in use by a thread that is stuck.
    if (lock.try_lock_for(longest_wait_for_threads)) library.leave_step();
}

void Library::abort(int code, std::string_view message) {
    const Topology* where = topology_.load();
    const std::string text = where == nullptr
                                 ? fmt::format("mpi_bridge: aborted: {}\n", message)
                                 : fmt::format("mpi_bridge: rank {} of {} aborted: {}\n",
                                               where->rank, where->size, message);
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    const int exit_code = code == 0 ? 1 : code;
    // A forked child ends itself alone: the connection to the launcher is its parent's.
    if (in_forked_child()) std::_Exit(exit_code);
    if (where != nullptr) record_abort(process_environment, where->rank, message);
    if (Bootstrap* launcher = launcher_.load(); launcher != nullptr) {
        launcher->abort(exit_code, text);
    }
    // Not exit(): other threads may hold locks that exit handlers would wait for.
    std::_Exit(exit_code);
}

Outcome<void*> Library::allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (topology_.load() == nullptr) {
        return fail(MPIB_ERROR_NOT_INITIALIZED, "mpib_alloc: call mpib_init first");
    }
    // Not made in mpib_init where the rank is alone on its node, or there was no memory then.
    auto heap = heap_.open();
    if (!heap) return pass_on(std::move(heap));
    return (*heap)->allocate(bytes);
}

Done Library::release(void* memory) {
    const std::lock_guard lock(mutex_);
    // After mpib_finalize() nothing is left to free.
    SharedHeap* const heap = heap_.get();
    if (memory == nullptr || heap == nullptr || heap->free(memory)) return {};
    return fail(MPIB_ERROR_INVALID_ARGUMENT, "mpib_free: the pointer is not from mpib_alloc");
}

Done Library::admit(const Identity& identity) {
    if (topology_.load() == nullptr) {
        return fail(MPIB_ERROR_NOT_INITIALIZED,
                    std::string(identity.name) + ": call mpib_init first");
    }
    if (broken_) {
        const std::lock_guard lock(failure_mutex_);
        return fail(failure_->status,
                    std::string(identity.name) +
                        ": refused, because an earlier call failed: " + failure_->text);
    }
    return {};
}

bool Library::begin(const Identity& identity) {
    trace().timeline.begin({identity.name, Phase::operation, identity.kind, MPIB_WORLD},
                           {static_cast<std::int64_t>(identity.bytes), -1, -1, -1});
    return identity.bytes >= small_bytes || small_calls_++ % small_calls_per_sample == 0;
}

Done Library::end(const Identity& identity, Done done, Clock::duration time) {
    trace().timeline.end({identity.name, Phase::operation, identity.kind, MPIB_WORLD},
                         done.has_value());
    Counters& counters = trace().counters;
    if (!done) {
        counters.add_operation(identity.kind, identity.bytes, false);
        break_off(done.error());
        const std::lock_guard lock(failure_mutex_);
        // Another thread's failure came first and ended this call with the transport.
        if (failure_->text != done.error().text) {
            return fail(failure_->status, std::string(identity.name) +
                                              ": ended by an earlier failure: " + failure_->text);
        }
        return done;
    }
    if (identity.bytes < small_bytes) time *= small_calls_per_sample;
    counters.add_call(identity.kind, identity.bytes,
                      bus_bytes(identity.kind, topology_.load()->size, identity.size), time);
    return done;
}

void Library::break_off(const Failure& failure) {
    {
        const std::lock_guard lock(failure_mutex_);
        if (failure_) return;
        failure_ = failure;
        broken_ = true;
    }
    if (const Topology* where = topology_.load(); where != nullptr)
        record_failure(process_environment, where->rank, failure);
    // Before the transport, whose end fails the engine's own calls with less to tell.
    if (Engine* engine = engine_in_use_; engine != nullptr) engine->note_failure(failure);
    communicators_.abandon_all();
    transport_->abandon();
    if (Engine* engine = engine_in_use_; engine != nullptr) engine->fail_all(failure);
}

}  // namespace mpi_bridge
