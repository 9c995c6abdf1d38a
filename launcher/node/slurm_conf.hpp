// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

// What batchai-node has to know of Slurm's configuration, read as the user.
namespace batchai::node {

// The text of slurm.conf: of `file` if that is not empty and can be read, else from the usual
// places. Empty when there is none.
[[nodiscard]] std::string read_slurm_conf(const std::string& file);

// SlurmdSpoolDir of that text for this node; Slurm's default when it is not set.
[[nodiscard]] std::string spool_directory(std::string_view slurm_conf, std::string_view node);

}  // namespace batchai::node
