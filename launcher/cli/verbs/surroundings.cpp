// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/surroundings.hpp"

namespace batchai::cli {

base::Result<Surroundings> open_surroundings() {
    auto store = store::Store::open_default();
    if (!store) return tl::unexpected(store.error());
    auto site = site::load_default();
    if (!site) return tl::unexpected(site.error());
    return Surroundings{std::move(*store), std::move(*site), slurm::Client::interactive()};
}

}  // namespace batchai::cli
