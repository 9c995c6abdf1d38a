// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

// The part of Slurm's configuration that batchai-node needs. It is read as the user.
namespace batchai::node {

struct SlurmConf {
    std::string path;  // empty: there is none
    std::string text;
};

// Reads slurm.conf: `file` if it is not empty and can be read, otherwise the first file found in
// the usual places.
[[nodiscard]] SlurmConf read_slurm_conf(const std::string& file);

// Returns whether slurmd has fetched the file from the controller, because the site's hosts have no
// files of Slurm's of their own ("configless"). It writes all of them anew when it starts and at
// each `scontrol reconfigure`.
[[nodiscard]] bool is_fetched(const std::string& file);

// Returns the value of a key, which is compared without regard to case, in the text of slurm.conf;
// nothing if it is not set. If it is set twice, the last value applies, as in Slurm.
[[nodiscard]] std::optional<std::string> slurm_conf_value(std::string_view slurm_conf,
                                                          std::string_view key);

// Returns whether several slurmd may run on a host, each for a node of its own: their spool
// directories have the names of the nodes, as Slurm then wants it.
[[nodiscard]] bool may_have_several_slurmds(std::string_view slurm_conf);

// Returns SlurmdSpoolDir from the text of slurm.conf for a node and its host, or Slurm's default if
// it is not set.
[[nodiscard]] std::string spool_directory(std::string_view slurm_conf, std::string_view node,
                                          std::string_view host);

}  // namespace batchai::node
