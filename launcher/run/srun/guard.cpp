// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/guard.hpp"

#include <fmt/format.h>

#include "spank/protocol.h"

namespace batchai::run {

namespace {

// The refusal is reported in the same way as one of the plugin itself.
constexpr std::string_view guard =
    R"(if [ "${proof}" != "${digest}" ]; then
  why="the plugin batchai.so is not active on node ${{SLURMD_NODENAME:-?}}, and nothing of the job is run outside its sandbox; ask the admin to add the plugin to plugstack.conf there"
  echo "batchai: $why" >&2
  if [ -n "${refusals}" ]; then echo "$why" > "${refusals}.$SLURM_PROCID.txt"; fi
  exit 97
fi
)";

}  // namespace

std::string guarded(std::string_view script) {
    return fmt::format(guard, fmt::arg("proof", BATCHAI_PROOF_VARIABLE),
                       fmt::arg("digest", BATCHAI_DIGEST_VARIABLE),
                       fmt::arg("refusals", BATCHAI_REFUSALS_VARIABLE))
        .append(script);
}

}  // namespace batchai::run
