// SPDX-License-Identifier: Apache-2.0
#include "transport/open_transport.hpp"

#include <utility>

#include "core/log.hpp"
#include "transport/choice/network_choice.hpp"
#include "transport/tcp/transport.hpp"
#include "transport/ucx/choice.hpp"
#include "transport/ucx/transport.hpp"
#include "transport/wire_version.hpp"

namespace mpi_bridge {
namespace {

// The first byte of a published address. The second one is the version of the wire format.
constexpr std::byte ucx_mark{'u'};
constexpr std::byte tcp_mark{'t'};
constexpr std::byte own_version{wire_version};
constexpr std::ptrdiff_t bytes_before_address = 2;

const char* name_of_mark(std::byte mark) {
    return mark == tcp_mark ? "tcp" : "ucx";
}

using AddressOf = std::function<Outcome<std::vector<std::byte>>(int rank)>;

AddressOf addresses_of_own_kind(const TransportWishes& wishes, std::byte mark) {
    return [fetch = wishes.fetch, own = wishes.rank,
            mark](int rank) -> Outcome<std::vector<std::byte>> {
        auto address = TRY(fetch(rank));
        const std::byte theirs = address.empty() ? std::byte{} : address.front();
        if (theirs != mark) {
            return fail(MPIB_ERROR_BOOTSTRAP,
                        "rank " + std::to_string(own) + " uses the network " + name_of_mark(mark) +
                            " but rank " + std::to_string(rank) + " uses " + name_of_mark(theirs) +
                            ", as their hosts or environments differ; set MPI_BRIDGE_NETWORK to "
                            "tcp, or to ucx, for all ranks");
        }
        const std::byte version =
            address.size() < bytes_before_address ? std::byte{} : address.at(1);
        if (version != own_version) {
            return fail(MPIB_ERROR_BOOTSTRAP,
                        "rank " + std::to_string(own) + " and rank " + std::to_string(rank) +
                            " have loaded different versions of libmpi_bridge (wire formats " +
                            std::to_string(wire_version) + " and " +
                            std::to_string(std::to_integer<int>(version)) +
                            "); install the same version on all hosts");
        }
        address.erase(address.begin(), address.begin() + bytes_before_address);
        return address;
    };
}

template <typename Opened>
Outcome<std::unique_ptr<Transport>> published(const TransportWishes& wishes, std::byte mark,
                                              Outcome<std::unique_ptr<Opened>> opened) {
    auto transport = TRY(std::move(opened));
    std::vector<std::byte> address{mark, own_version};
    const auto own = transport->address();
    address.insert(address.end(), own.begin(), own.end());
    TRY(wishes.publish(address));
    return std::unique_ptr<Transport>(std::move(transport));
}

Outcome<std::unique_ptr<Transport>> open_tcp(const TransportWishes& wishes,
                                             const NetworkChoice& choice, bool several_hosts) {
    auto interface = TRY(choose_tcp_interface(wishes.host, ucx_wishes(), several_hosts));
    log(LogLevel::info, "network: " + interface.text +
                            (several_hosts ? "; TCP of its own, because " : ", because ") +
                            choice.reason + " (MPI_BRIDGE_NETWORK)");
    TcpTransport::Options options;
    options.rank = wishes.rank;
    options.size = wishes.size;
    options.local_size = wishes.local_size;
    options.addresses = std::move(interface.addresses);
    options.host_timeout = wishes.host_timeout;
    options.waits = wishes.waits;
    options.address_of = addresses_of_own_kind(wishes, tcp_mark);
    return published(wishes, tcp_mark, TcpTransport::open(std::move(options)));
}

}  // namespace

Outcome<std::unique_ptr<Transport>> open_transport(const TransportWishes& wishes) {
    const bool several_hosts = wishes.local_size < wishes.size;
    const auto choice = choose_network_here(wishes.network, wishes.host, several_hosts);
    if (choice.kind == NetworkChoice::Kind::tcp) {
        return open_tcp(wishes, choice, several_hosts);
    }
    log(LogLevel::debug, "UCX moves messages, because " + choice.reason);
    UcxTransport::Options options;
    options.rank = wishes.rank;
    options.size = wishes.size;
    options.local_size = wishes.local_size;
    options.waits = wishes.waits;
    options.named = wishes.network == "ucx";
    const auto use = choose_ucx(wishes.host, ucx_wishes(), {several_hosts, options.named});
    if (use.over_tcp && wishes.rank == 0) {
        log(LogLevel::warning,
            "MPI_BRIDGE_NETWORK=ucx: UCX over TCP lets any user of the network write into the "
            "memory of the ranks; MPI_BRIDGE_NETWORK=auto or tcp lets only the job's own ranks "
            "connect");
    }
    options.address_of = addresses_of_own_kind(wishes, ucx_mark);
    return published(wishes, ucx_mark, UcxTransport::open(std::move(options)));
}

}  // namespace mpi_bridge
