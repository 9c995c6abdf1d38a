// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/job_directory.hpp"

#include <utility>

#include "node/keeper/registry.hpp"

namespace batchai::node {

base::Result<Root> make_job_directory(const Root& node_root, const std::string& path,
                                      const std::string& job_id) {
    const auto relative = relative_to(node_root.path, path);
    if (!relative) return tl::unexpected<base::Error>(relative.error());
    const auto claimed = claim(node_root, job_id, relative->substr(0, relative->find('/')));
    if (!claimed) return tl::unexpected<base::Error>(claimed.error());
    auto directory = make_beneath(node_root, *relative);
    if (!directory) return tl::unexpected<base::Error>(directory.error());
    return Root{std::move(*directory), path};
}

}  // namespace batchai::node
