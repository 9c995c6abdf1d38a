// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace batchai::admin {

// Slurm's plugin for `srun --mpi=pmix`. `srun --mpi=list` only looks whether the file is there. The
// plugin loads libpmix when a step starts.
struct PmixPlugin {
    std::string path;
    std::string library;  // the name by which it loads libpmix; empty: it does not load it by name
    bool loadable = false;  // whether there is a library of that name
};

// Returns the name by which a plugin loads libpmix: the text in the file that is such a name, as in
// "libpmix.so.2". Empty if there is none.
[[nodiscard]] std::string name_of_libpmix(std::string_view plugin);

// Returns whether the dynamic linker has the library, by what `ldconfig -p` prints.
[[nodiscard]] bool is_cached(std::string_view libraries, std::string_view name);

// Looks for the plugin of an MPI type such as "pmix_v4" in directories that are separated by
// colons, and for the library that it loads. The user's LD_LIBRARY_PATH does not count: slurmd has
// another.
[[nodiscard]] base::Result<PmixPlugin> look_at_pmix_plugin(std::string_view type,
                                                           std::string_view directories);

}  // namespace batchai::admin
