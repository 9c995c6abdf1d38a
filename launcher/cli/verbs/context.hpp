// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <utility>

#include "base/error.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"
#include "user/config.hpp"

namespace batchai::cli {

// The store, the site and the Slurm client, which nearly every verb uses. The user's defaults have
// been read.
struct Context {
    store::Store store;
    site::Site site;
    slurm::Client slurm;
};

[[nodiscard]] inline base::Result<Context> open_context() {
    TRY(user::user_config());
    auto store = TRY(store::Store::open_default());
    auto site = TRY(site::load_default());
    return Context{std::move(store), std::move(site), slurm::Client::interactive()};
}

}  // namespace batchai::cli
