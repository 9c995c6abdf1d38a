// SPDX-License-Identifier: Apache-2.0
#include "api/library.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "api/guard.hpp"
#include "transport/alone_transport.hpp"
#include "transport/ucx_transport.hpp"

namespace mpi_bridge {
namespace {

constexpr const char* address_key = "mpi_bridge.ucx";
// How long leaving may take: long enough to deliver what was sent, short enough to end by.
constexpr Seconds longest_goodbye{5};
// At exit another thread may be in a collective call that will never end.
constexpr Seconds longest_wait_for_threads{2};

Outcome<std::unique_ptr<Transport>> open_transport(Bootstrap& bootstrap, Seconds timeout) {
    const Topology& topology = bootstrap.topology();
    if (topology.size == 1) return std::make_unique<AloneTransport>();
    UcxTransport::Options options;
    options.rank = topology.rank;
    options.size = topology.size;
    options.local_size = topology.local_size;
    options.address_of = [&bootstrap, timeout](int rank) {
        return bootstrap.fetch(address_key, rank, Deadline::in(timeout));
    };
    auto transport = UcxTransport::open(std::move(options));
    if (!transport) return pass_on(std::move(transport));
    const auto address = (*transport)->address();
    auto published = bootstrap.publish(address_key, address, Deadline::in(timeout));
    if (!published) return pass_on(std::move(published));
    return std::move(*transport);
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
    if (left_for_good_) {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "mpib_init cannot follow mpib_finalize in the same process: a process joins "
                    "its job step once");
    }
    Done joined = without_exceptions([this] { return join_step(); });
    if (!joined) leave_step();
    return joined;
}

Done Library::join_step() {
    auto settings = settings_from_environment();
    if (!settings) return pass_on(std::move(settings));
    settings_ = std::move(*settings);
    allreduce_ = AllreduceTable();
    if (!settings_.allreduce.empty()) {
        auto table = AllreduceTable::parse(settings_.allreduce);
        if (!table) return pass_on(std::move(table));
        allreduce_ = std::move(*table);
    }
    // Registered before the connection exists, so that no way out of the process misses it.
    if (!exit_handler_set_) exit_handler_set_ = std::atexit(at_exit) == 0;
    owner_ = getpid();

    auto bootstrap = connect();
    if (!bootstrap) return pass_on(std::move(bootstrap));
    bootstrap_ = std::move(*bootstrap);
    auto transport = open_transport(*bootstrap_, timeout());
    if (!transport) return pass_on(std::move(transport));
    transport_ = std::move(*transport);

    sequence_ = 0;
    broken_.reset();
    launcher_ = bootstrap_.get();
    topology_ = &topologies_.emplace_back(bootstrap_->topology());
    return {};
}

void Library::leave_step() {
    topology_ = nullptr;
    launcher_ = nullptr;
    if (transport_ != nullptr) transport_->close(Deadline::in(longest_goodbye));
    transport_.reset();
    if (bootstrap_ != nullptr) {
        left_for_good_ = bootstrap_->topology().size > 1;
        bootstrap_->close();
    }
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
    if (lock.try_lock_for(longest_wait_for_threads)) {
        library.leave_step();
    } else if (Bootstrap* launcher = library.launcher_.exchange(nullptr); launcher != nullptr) {
        // The transport is in use by a thread that is stuck; the launcher must hear of us anyway.
        launcher->close();
    }
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
    if (Bootstrap* launcher = launcher_.load(); launcher != nullptr) {
        launcher->abort(exit_code, text);
    }
    // Not exit(): other threads may hold locks that exit handlers would wait for.
    std::_Exit(exit_code);
}

AllreduceAlgorithm Library::choose_allreduce(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return allreduce_.choose(bytes);
}

Done Library::run(const Identity& identity, const Body& body) {
    const std::lock_guard lock(mutex_);
    if (topology_.load() == nullptr || getpid() != owner_) {
        return fail(MPIB_ERROR_NOT_INITIALIZED,
                    std::string(identity.name) + ": call mpib_init first");
    }
    if (broken_) {
        return fail(broken_->status,
                    std::string(identity.name) +
                        ": refused, because an earlier call failed: " + broken_->text);
    }
    Conversation::Call call;
    call.name = identity.name;
    call.sequence = ++sequence_;
    call.agreement = static_cast<std::uint32_t>(identity.agreement ^ (identity.agreement >> 32));
    call.agreement ^= call.agreement >> 16;
    call.patience = timeout();
    call.tuning.segment_bytes = settings_.segment_bytes;
    Conversation talk(*transport_, scratch_, call);
    Done done = without_exceptions([&] { return body(talk); });
    if (!done) {
        broken_ = done.error();
        transport_->abandon();
        return done;
    }
    // Hand to the system what UCX still holds, since nobody may call in for a long time.
    for (int looks = 0; looks < 16 && transport_->progress(); ++looks) {
    }
    return done;
}

}  // namespace mpi_bridge
