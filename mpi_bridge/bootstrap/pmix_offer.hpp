// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bootstrap/launch.hpp"

namespace mpi_bridge {

// What the launcher's environment says of its PMIx server. Servers from version 2 on offer their
// address in one variable for each generation of clients that they speak to.
struct PmixOffer {
    std::string server_version;            // PMIX_VERSION; "" from servers before 3
    std::vector<std::string> generations;  // such as "41", "4", "3": PMIX_SERVER_URI41 …
    std::string address;                   // such as "tcp4://127.0.0.1:40001"
};
[[nodiscard]] PmixOffer pmix_offer(const Environment& environment);

// Both versions, for messages:
// "PMIx client library 4.2.2, server 5.0.7 (offers PMIX_SERVER_URI41/4/3/21/2)".
[[nodiscard]] std::string pmix_versions(const std::string& client_version, const PmixOffer& offer);

// Why PMIx_Init may have failed and what to do about it, as far as this process can see: "" or
// clauses that each begin with "; ".
[[nodiscard]] std::string likely_reasons(const Environment& environment,
                                         const std::string& client_version, const PmixOffer& offer);

// What libpmix must be told before PMIx_Init because of where this process runs, if the user has
// not told it otherwise: NAME=VALUE for the environment, and why.
struct PmixSetting {
    std::string name;
    std::string value;
    std::string reason;
};
// A server keeps the values of the ranks of its host in files that its clients map; in a container
// that does not show them, libpmix complains and may fail, but `hash` lets the server send them
// instead. `reachable` tells whether a directory can be entered.
[[nodiscard]] std::vector<PmixSetting> settings_for_surroundings(
    const Environment& environment,
    const std::function<bool(const std::string& directory)>& reachable);

// Beside a libpmix that was brought to another place than it was built for, with what it loads: the
// directory that is to it what its installation prefix was.
inline constexpr const char* relocated_prefix = "pmix_install";

// For such a library, at `library` in the file system, that prefix. Not for any other: a prefix
// that is not its own would keep it from its components.
[[nodiscard]] std::vector<PmixSetting> settings_for_relocation(
    const Environment& environment, const std::string& library,
    const std::function<bool(const std::string& directory)>& reachable);

}  // namespace mpi_bridge
