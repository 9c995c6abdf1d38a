// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

// The part of Slurm's configuration that batchai-node needs. It is read as the user.
namespace batchai::node {

// Returns the text of slurm.conf: that of `file` if it is not empty and can be read, otherwise that
// of the first file found in the usual places. Empty if there is none.
[[nodiscard]] std::string read_slurm_conf(const std::string& file);

// Returns SlurmdSpoolDir for this node from the text of slurm.conf, or Slurm's default if it is not
// set.
[[nodiscard]] std::string spool_directory(std::string_view slurm_conf, std::string_view node);

}  // namespace batchai::node
