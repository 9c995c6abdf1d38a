// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "core/waits.hpp"
#include "transport/transport.hpp"

// The transport over UCX.
//
//   transport.hpp    the transport
//   peers.hpp        the endpoints to the peers
//   network.hpp      gives UCX its settings for this host's network
//   choice.hpp       decides which settings those are
//   devices.cpp      which transports UCX finds on this host
//   without_ucx.cpp  takes the place of the files that call UCX in a build without it
namespace mpi_bridge {

// A transport over UCX tag matching.
class UcxTransport : public Transport {
  public:
    struct Options {
        int rank = 0;
        int size = 1;
        int local_size = 1;      // ranks on this host, for UCX's choice of resources
        bool named = false;      // see UcxUse
        Waits* waits = nullptr;  // where threads record their waits, or nullptr
        // Called once per peer, when the first message to or from it is posted.
        std::function<Outcome<std::vector<std::byte>>(int rank)> address_of;
    };

    [[nodiscard]] static Outcome<std::unique_ptr<UcxTransport>> open(Options options);

    // What peers need to know to reach this rank.
    [[nodiscard]] virtual std::vector<std::byte> address() const = 0;
};

// The version of the UCX library in use.
[[nodiscard]] std::string ucx_version();

// The names of the transports that UCX finds on this host, such as "posix", "self" and "tcp".
[[nodiscard]] Outcome<std::vector<std::string>> ucx_transports();

}  // namespace mpi_bridge
