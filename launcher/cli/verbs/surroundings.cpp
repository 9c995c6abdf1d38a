// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/surroundings.hpp"

namespace batchai::cli {

base::Result<Surroundings> open_surroundings() {
    auto store = TRY(store::Store::open_default());
    auto site = TRY(site::load_default());
    return Surroundings{std::move(store), std::move(site), slurm::Client::interactive()};
}

}  // namespace batchai::cli
