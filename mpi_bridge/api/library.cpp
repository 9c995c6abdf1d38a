// SPDX-License-Identifier: Apache-2.0
#include "api/library.hpp"

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "api/guard.hpp"
#include "collectives/group_layout.hpp"
#include "core/descriptor_limit.hpp"
#include "core/fork_guard.hpp"
#include "core/log.hpp"
#include "reduce/reduction.hpp"
#include "trace/bus_bytes.hpp"
#include "trace/failure_record.hpp"
#include "trace/trace.hpp"

namespace mpi_bridge {
namespace {

// At exit another thread may be in a collective call that will never end.
constexpr Seconds longest_wait_for_threads{2};
// Reading the clock twice takes as long as a small call through shared memory, so only a sample of
// the small calls is timed, and each timed call stands for all calls of its sample.
constexpr std::uint64_t small_bytes = 4096;
constexpr unsigned small_calls_per_sample = 16;

}  // namespace

Library& Library::instance() {
    static auto* const library = new Library();
    return *library;
}

Seconds Library::overridden(Seconds setting) const {
    const double override = timeout_override_;
    return override > 0 ? Seconds(override) : setting;
}

Done Library::initialize(const mpib_meeting* meeting) {
    const std::lock_guard lock(mutex_);
    if (topology_.load() != nullptr) return {};
    if (stuck_) {
        return fail(MPIB_ERROR_INTERNAL,
                    "mpib_init: threads have not left the library since mpib_finalize");
    }
    Done joined = catching([&] { return join_step(meeting); });
    if (!joined) leave_step();
    return joined;
}

Done Library::join_step(const mpib_meeting* meeting) {
    settings_ = TRY(settings_from_environment());
    TRY(choose_kernels(settings_.kernels));
    engine_settings_ = TRY(engine_settings(process_environment));
    owner_ = getpid();
    TRY(guard_forks());

    TRY(wireup_.connect(meeting, Deadline::in(start_timeout())));
    // This comes after the connection, whose own exit handler therefore runs later: the launcher
    // must be the last to hear that this process leaves.
    if (!exit_handler_set_) exit_handler_set_ = std::atexit(at_exit) == 0;
    const Topology& where = wireup_.topology();
    raise_descriptor_limit(where.size);
    failure_ = &failures_.emplace_back();
    TRY(wireup_.join({.network = settings_.network,
                      .start_timeout = [this] { return start_timeout(); },
                      .host_timeout = settings_.host_timeout,
                      .failure = failure_,
                      .stall = engine_settings_.stall,
                      .engine_is_awaited = [this] { start_engine(); }}));

    if (where.local_size > 1) {
        auto heap = heap_.open();
        if (!heap) log(LogLevel::info, "collectives will copy: " + heap.error().text);
    }
    direct_ = TRY(open_communicator(everybody(), {Channel::Lane::direct, MPIB_WORLD}));

    make_engine();

    trace().counters.reset();
    forget_failure(process_environment, where.rank);
    TRY(start_timeline_from_environment(process_environment, where.rank, where.size));
    launcher_ = &wireup_.launcher();
    topology_ = &topologies_.emplace_back(where);
    wireup_.start_heartbeat();
    return {};
}

Group Library::everybody() const {
    const Topology& topology = wireup_.topology();
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
    options.failure = failure_;
    options.waits = &wireup_.waits();
    options.settings = settings_;
    return Communicator::open(wireup_.transport(), std::move(options));
}

void Library::make_engine() {
    EngineParts parts;
    parts.world = everybody();
    parts.open = [this](const Group& group, Channel::Lane lane, unsigned id) {
        return open_communicator(group, {lane, id});
    };
    parts.wake = [this] { wireup_.transport().wake(); };
    parts.transport = &wireup_.transport();
    parts.waits = &wireup_.waits();
    parts.operations = &wireup_.operations();
    parts.allocate = [this](std::size_t bytes) {
        SharedHeap* const heap = heap_.get();
        if (heap == nullptr) return Bytes();
        auto memory = heap->allocate(bytes);
        return memory ? Bytes(static_cast<std::byte*>(*memory), bytes) : Bytes();
    };
    parts.free = [this](Bytes memory) { heap_.get()->free(memory.data()); };
    parts.timeout = [this] { return timeout(); };
    parts.failure = failure_;
    parts.trace = &trace();
    parts.settings = engine_settings_;
    engine_.lend(std::make_unique<Engine>(std::move(parts)));
    // This comes after the engine was made: the engine's operations must be told the cause before
    // the end of the transport fails them with a less helpful text.
    failure_watch_.emplace(*failure_.load(), [this](const Failure& cause) { abandon(cause); });
}

// Called by the heartbeat, which goes on if there is no room for the threads.
void Library::start_engine() {
    const LentEngine::Loan loan(engine_);
    if (loan.engine() == nullptr) return;
    const Done started = catching([&]() -> Done {
        loan.engine()->start();
        return {};
    });
    if (!started) log(LogLevel::warning, "the engine cannot be started: " + started.error().text);
}

void Library::leave_step() {
    topology_ = nullptr;
    launcher_ = nullptr;
    const bool ended = engine_.end(longest_wait_for_threads);
    if (auto completed = trace().timeline.stop(); !completed) {
        log(LogLevel::warning, completed.error().text);
    }
    if (!ended) {
        // These threads reach the transport and the heap through this object, so all of it is kept.
        stuck_ = true;
        log(LogLevel::warning,
            "threads are still in calls of the library, so what they use is kept until the process "
            "ends");
        return;
    }
    failure_watch_.reset();
    engine_.reset();
    direct_.reset();
    heap_.close();
    wireup_.close();
    failure_ = nullptr;
}

Done Library::finalize() {
    std::unique_lock lock(mutex_, std::defer_lock);
    // Another thread may be in a blocking call, which gets a short time to end by itself.
    if (!lock.try_lock_for(longest_wait_for_threads)) {
        if (FailureToken* const failure = failure_; failure != nullptr) {
            failure->fail({MPIB_ERROR_NOT_INITIALIZED,
                           "mpib_finalize was called while the call was in progress"});
        }
        if (!lock.try_lock_for(longest_wait_for_threads)) {
            return fail(MPIB_ERROR_TIMEOUT,
                        "mpib_finalize: a thread is stuck in a call of the library, so what it "
                        "uses is kept until the process ends");
        }
    }
    if (topology_.load() != nullptr && getpid() == owner_) leave_step();
    return {};
}

void Library::at_exit() {
    Library& library = instance();
    if (library.owner_ != getpid()) return;
    std::unique_lock lock(library.mutex_, std::defer_lock);
    // If this fails, a thread that is stuck is still using the transport.
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
    // Of an exit code, 8 bits are seen outside, and an abort must not look like success.
    const int exit_code = (code & 0xff) == 0 ? 1 : code;
    // A forked child ends only itself, because the connection to the launcher belongs to its
    // parent.
    if (in_forked_child()) std::_Exit(exit_code);
    if (where != nullptr) record_abort(process_environment, where->rank, message);
    if (Bootstrap* launcher = launcher_.load(); launcher != nullptr) {
        launcher->abort(exit_code, text);
    }
    // exit() is not used here, because other threads may hold locks that exit handlers would wait
    // for.
    std::_Exit(exit_code);
}

// A call that another thread has in progress holds mutex_ for as long as it waits for other ranks,
// and these may wait for what the caller is about to do. The heap needs nothing but to be kept from
// mpib_finalize(), which a loan ensures.
Outcome<void*> Library::allocate(std::size_t bytes) {
    const LentEngine::Loan kept(engine_);
    if (kept.engine() == nullptr) return not_initialized("mpib_alloc");
    // mpib_init() makes no heap where the rank is alone on its node, and none where there was no
    // memory then, so it is made here.
    const auto heap = TRY(heap_.open());
    return heap->allocate(bytes);
}

Done Library::release(void* memory) {
    const LentEngine::Loan kept(engine_);
    // After mpib_finalize() nothing is left to free.
    if (memory == nullptr || kept.engine() == nullptr) return {};
    SharedHeap* const heap = heap_.get();
    if (heap == nullptr || heap->free(memory)) return {};
    return invalid("mpib_free: the pointer is not from mpib_alloc");
}

Done Library::admit(const Identity& identity) {
    if (topology_.load() == nullptr) return not_initialized(identity.name);
    if (const FailureToken& failure = *failure_.load(); failure.failed()) {
        const Failure& cause = failure.cause();
        return fail(cause.status, std::string(identity.name) +
                                      ": refused, because an earlier call failed: " + cause.text);
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
        const Failure& cause = failure_.load()->fail(done.error());
        // Another failure, of this rank or another one, came first and ended this call.
        if (cause.text != done.error().text) {
            return fail(cause.status, std::string(identity.name) +
                                          ": ended by an earlier failure: " + cause.text);
        }
        return done;
    }
    if (identity.bytes < small_bytes) time *= small_calls_per_sample;
    counters.add_call(identity.kind, identity.bytes,
                      bus_bytes(identity.kind, topology_.load()->size, identity.size), time);
    return done;
}

void Library::abandon(const Failure& cause) {
    if (const Topology* where = topology_.load(); where != nullptr)
        record_failure(process_environment, where->rank, cause);
    wireup_.transport().abandon();
}

}  // namespace mpi_bridge
