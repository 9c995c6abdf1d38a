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

}  // namespace batchai::spank
