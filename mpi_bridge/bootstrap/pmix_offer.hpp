// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/environment.hpp"

namespace mpi_bridge {

// What the launcher's environment says about its PMIx server. Servers from version 2 on offer their
// address in one variable for each generation of clients that they support.
struct PmixOffer {
    std::string server_version;            // PMIX_VERSION; "" from servers before 3
    std::vector<std::string> generations;  // such as "41", "4", "3": PMIX_SERVER_URI41 …
    std::string address;                   // such as "tcp4://127.0.0.1:40001"
};
[[nodiscard]] PmixOffer pmix_offer(const Environment& environment);

// Both versions, for messages:
// "PMIx client library 4.2.2, server 5.0.7 (offers PMIX_SERVER_URI41/4/3/21/2)".
[[nodiscard]] std::string pmix_versions(const std::string& client_version, const PmixOffer& offer);

// Why PMIx_Init may have failed and what to do about it, as far as this process can tell: "" or
// clauses that each begin with "; ".
[[nodiscard]] std::string likely_reasons(const Environment& environment,
                                         const std::string& client_version, const PmixOffer& offer);

// An environment variable that libpmix must see in PMIx_Init because of where this process runs,
// unless the user has set it, and the reason.
struct PmixSetting {
    std::string name;
    std::string value;
    std::string reason;
};
// A server keeps the values of the ranks of its host in files that its clients map. In a container
// where these files are not visible, libpmix complains and may fail; with `hash` the server sends
// the values instead. `reachable` tells whether a directory can be entered.
[[nodiscard]] std::vector<PmixSetting> settings_for_surroundings(
    const Environment& environment,
    const std::function<bool(const std::string& directory)>& reachable);

// The directory, next to a libpmix that was moved together with the files that it loads, that takes
// the place of its installation prefix.
inline constexpr const char* relocated_prefix = "pmix_install";

// The setting that gives this prefix to a moved library; `library` is its path. No setting for any
// other library, because a foreign prefix would keep it from finding its components.
[[nodiscard]] std::vector<PmixSetting> settings_for_relocation(
    const Environment& environment, const std::string& library,
    const std::function<bool(const std::string& directory)>& reachable);

}  // namespace mpi_bridge
