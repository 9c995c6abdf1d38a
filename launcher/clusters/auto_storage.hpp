// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "site/site.hpp"
#include "store/store.hpp"

namespace batchai::clusters {

// Makes what --use-auto-storage of `cluster create` stands for, as far as it is missing: the group
// batchaiautostorage, in it an account with a name of its own, and in this the share batchaishare
// and the container batchaicontainer. Returns `volumes`, a mountVolumes or null, with both of them
// at autoafs and autobfs. Says what it makes.
[[nodiscard]] base::Result<base::Value> with_auto_storage(base::Value volumes,
                                                          const store::Store& store,
                                                          const site::Site& site);

}  // namespace batchai::clusters
