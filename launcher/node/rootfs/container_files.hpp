// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/namespace/accounts.hpp"

namespace batchai::node {

// What of the node's /etc a container must have, read before root or user change.
struct NodeFiles {
    Account account;
    std::string hosts;
    std::string name_servers;  // resolv.conf
};

[[nodiscard]] NodeFiles read_node_files();

// Writes /etc/{passwd,group,hosts,resolv.conf} of the container: the image's accounts with the
// user's, the node's names. With one id only, also tells apt not to change to another.
[[nodiscard]] base::Result<void> write_container_files(const NodeFiles& files, bool one_id,
                                                       const Root& root);

}  // namespace batchai::node
