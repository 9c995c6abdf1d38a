// SPDX-License-Identifier: Apache-2.0
#include "api/wireup.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "core/log.hpp"
#include "trace/stall.hpp"
#include "trace/trace.hpp"
#include "transport/alone_transport.hpp"
#include "transport/choice/network_choice.hpp"
#include "transport/open_transport.hpp"

namespace mpi_bridge {
namespace {

constexpr const char* address_key = "mpi_bridge.address";
// How long leaving may take: long enough to deliver what was sent, and short enough for the end of
// a process.
constexpr Seconds longest_goodbye{5};
// All addresses are available once all ranks have joined, and the heartbeat must not be held up for
// long.
constexpr Seconds longest_heartbeat_fetch{5};

// What a rank publishes: the addresses of its transport and of its heartbeat.
std::vector<std::byte> published(std::span<const std::byte> transport,
                                 std::span<const std::byte> heartbeat) {
    const auto length = static_cast<std::uint32_t>(transport.size());
    const auto head = std::as_bytes(std::span(&length, 1));
    std::vector<std::byte> bytes(head.begin(), head.end());
    bytes.insert(bytes.end(), transport.begin(), transport.end());
    bytes.insert(bytes.end(), heartbeat.begin(), heartbeat.end());
    return bytes;
}

enum class Part { transport, heartbeat };

Outcome<std::vector<std::byte>> part_of(Outcome<std::vector<std::byte>> bytes, Part part) {
    if (!bytes) return bytes;
    std::uint32_t length = 0;
    if (bytes->size() >= sizeof length) std::memcpy(&length, bytes->data(), sizeof length);
    const auto rest = std::span(*bytes).subspan(std::min(bytes->size(), sizeof length));
    if (length > rest.size()) return fail(MPIB_ERROR_BOOTSTRAP, "a rank's address is cut");
    const auto wanted = part == Part::transport ? rest.first(length) : rest.subspan(length);
    return std::vector<std::byte>(wanted.begin(), wanted.end());
}

}  // namespace

Done Wireup::connect(const mpib_meeting* meeting, Deadline deadline) {
    bootstrap_ =
        TRY(meeting == nullptr ? mpi_bridge::connect(deadline) : connect_by(*meeting, deadline));
    return {};
}

Done Wireup::open_heartbeat(const Options& how, const Network& host,
                            Heartbeat::AddressOf address_of) {
    const Topology& topology = this->topology();
    const bool several_hosts = topology.local_size < topology.size;
    auto interface = choose_tcp_interface(host, ucx_wishes(), several_hosts);
    if (!interface) {
        // If the transport needs an interface too, it reports this and fails.
        if (topology.rank == 0) {
            log(LogLevel::warning,
                "a rank that is frozen cannot be told from a slow one: " + interface.error().text);
        }
        return {};
    }
    Heartbeat::Options options;
    options.rank = topology.rank;
    options.size = topology.size;
    options.local_size = topology.local_size;
    options.host_of_rank = topology.host_of_rank;
    options.addresses = std::move(interface->addresses);
    options.host_timeout = how.host_timeout;
    options.address_of = std::move(address_of);
    options.failure = how.failure;
    options.waits = &waits();
    options.stall = how.stall;
    options.engine_is_awaited = how.engine_is_awaited;
    options.report = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
    heartbeat_ = TRY(Heartbeat::open(std::move(options)));
    enquired_ = heartbeat_.get();
    how.failure->enquire_with([this](Failure failure) {
        Heartbeat* const heartbeat = enquired_;
        return heartbeat == nullptr ? failure : heartbeat->enquire(std::move(failure));
    });
    return {};
}

// Reports, while this rank waits for others, that they have not come. No launcher says who they
// are.
std::function<bool()> Wireup::reports_of_absence(const StallSettings& stall) const {
    // If one of these is missing, the other one reports.
    constexpr int reporters = 2;
    const Topology& topology = this->topology();
    if (topology.rank >= reporters) return {};
    return [&topology, began = Clock::now(),
            watch = StallWatch({stall.report, Seconds(0)})]() mutable {
        const auto now = Clock::now();
        const Seconds waited(now - began);
        if (watch.look(waited, now) == StallWatch::Verdict::report) {
            std::fputs(
                fmt::format("mpi_bridge: rank {}: mpib_init has waited for {:.0f} s for ranks "
                            "of {} that have not called it yet, or whose program has ended\n",
                            topology.rank, waited.count(), topology.size)
                    .c_str(),
                stderr);
        }
        return false;
    };
}

Done Wireup::join(const Options& options) {
    const Topology& topology = this->topology();
    if (!visible_) visible_.emplace();
    visible_->show_rank(topology.rank);
    trace().counters.show_waited(&visible_->waited());
    if (topology.size == 1) {
        transport_ = std::make_unique<AloneTransport>();
        return {};
    }
    const auto fetch = [this](int rank, Seconds patience, Part part,
                              const std::function<bool()>& given_up) {
        return part_of(bootstrap_->fetch(address_key, rank, Deadline::in(patience), given_up),
                       part);
    };
    TransportWishes wishes;
    wishes.rank = topology.rank;
    wishes.size = topology.size;
    wishes.local_size = topology.local_size;
    wishes.network = options.network;
    wishes.host = network_of_this_host();
    wishes.host_timeout = options.host_timeout;
    wishes.waits = &waits();

    TRY(open_heartbeat(options, wishes.host, [fetch](int rank) {
        // Also after a failure of this rank, of which it has to tell others.
        return fetch(rank, longest_heartbeat_fetch, Part::heartbeat, {});
    }));

    wishes.publish = [this, timeout = options.start_timeout,
                      stall = options.stall](std::span<const std::byte> address) {
        const auto heartbeat =
            heartbeat_ == nullptr ? std::vector<std::byte>() : heartbeat_->address();
        return bootstrap_->publish(address_key, published(address, heartbeat),
                                   Deadline::in(timeout()), reports_of_absence(stall));
    };
    wishes.fetch = [fetch, timeout = options.start_timeout, failure = options.failure](int rank) {
        return fetch(rank, timeout(), Part::transport, [failure] { return failure->failed(); });
    };
    transport_ = TRY(open_transport(wishes));
    return {};
}

void Wireup::close() {
    // The heartbeat's own thread may fail the token until the destructor has joined it.
    enquired_ = nullptr;
    heartbeat_.reset();
    if (transport_ != nullptr) transport_->close(Deadline::in(longest_goodbye));
    transport_.reset();
    bootstrap_.reset();
}

}  // namespace mpi_bridge
