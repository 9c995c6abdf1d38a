// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

// Slurm's header opens its extern "C" block only after the declarations of the hooks.
extern "C" {
#include <slurm/spank.h>
}

namespace batchai::spank {

// Constants of slurm.h, which is not needed otherwise.
inline constexpr unsigned int extern_step = 0xfffffffcU;
inline constexpr unsigned int batch_step = 0xfffffffbU;

// What differs between releases of Slurm. The plugin is loaded only by the one it was built for.

// Whether connections of PMIx servers can be lost while tasks are started
// (mpi_bridge/core/settle.hpp). Slurm's ticket 15193, mended in 23.02.0, was one cause, and ticket
// 19444, mended in 24.05.0, the other.
inline constexpr bool pmix_has_to_settle = SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 5, 0);

}  // namespace batchai::spank
