// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"

namespace batchai::plan {

// The faults that the planner can find.
enum class Finding : std::uint8_t {
    toolkit_not_supported,
    too_few_processes,
    bad_path,
    nothing_mounted,
    unknown_vm_size,
    too_many_nodes,
    unknown_file_server,
    unknown_mount,
    bad_storage_name,
    no_storage_directory,
    no_command,
    secret_reference,
    bad_elastic_setting,
    bad_image,
    too_long,
    bad_tensorflow_config,
    against_policy,
    no_secret,
    bad_retry,
    bad_mount_option,
    no_credentials,
    bad_software,
    bad_snapshot,
    bad_notification,
    bad_sweep,
    bad_watch,
    uneven_gpus,
    undefined_variable,
    output_not_mounted,
    shared_gpus,
    no_effect,
    replaces_software,
    count_,
};

struct FindingKind {
    std::string_view code;  // stable: never renumber, never reuse
    std::string_view title;
    std::string_view remedy;  // whole sentences, in Markdown
};

// In the order of the enumerators of Finding.
inline constexpr std::array<FindingKind, static_cast<std::size_t>(Finding::count_)> finding_kinds{{
    {"E100", "A toolkit is not supported in this form",
     "Remove the setting or the variable that the message names, or use another toolkit."},
    {"E102", "There are fewer processes than nodes",
     "Lower `nodeCount`, or raise the number of processes: each node runs at least one."},
    {"E103", "A path is not absolute, too long or has \"..\"",
     "Write an absolute path without \"..\", which usually starts with "
     "`$AZ_BATCHAI_JOB_MOUNT_ROOT`."},
    {"E104", "Nothing is mounted at the log directory",
     "Mount a volume there with `mountVolumes`, or choose a `stdOutErrPathPrefix` below one "
     "of the mounts that the message lists."},
    {"E105", "This site does not have the cluster's VM size",
     "Use a cluster with a VM size of this site, or ask the admin to add it to `vm_sizes` "
     "in `site.lua`."},
    {"E106", "The cluster has fewer nodes than the job asks for",
     "Lower `nodeCount`, or enlarge the cluster with `batchai cluster resize`."},
    {"E107", "A file server is not known to this site",
     "Use a file server that the message lists, or ask the admin to add it to "
     "`file_servers` in `site.lua`."},
    {"E108", "A mount command is not one that this site allows",
     "Use a name that the message lists, or ask the admin to add the command to "
     "`named_mounts` in `site.lua`."},
    {"E109", "A name or URL is not a place in a storage account",
     "Write `https://<account>.file.core.windows.net/<share>`. Names have letters, digits "
     "and hyphens."},
    {"E110", "This site has no directory for a storage account",
     "Use another account, or ask the admin to add the directory to `storage_accounts` in "
     "`site.lua`."},
    {"E111", "There is nothing to run on the first node",
     "Give the toolkit's settings a `commandLine` for the first node."},
    {"E112", "A secret is in a key vault",
     "Give the value with `fromEnv` or `fromFile` instead ([secrets](secrets.md)). Key vaults "
     "are not supported."},
    {"E113", "A variable of an elastic job has a wrong value",
     "Correct the variable that the message names ([elastic jobs](elastic.md))."},
    {"E114", "The image or its registry cannot be used",
     "Check the image's name, the registry's URL and the credentials "
     "([containers](containers.md))."},
    {"E115", "A text is longer than Linux can pass to a program",
     "Put the text into a file on a mounted directory, and pass the path of that file."},
    {"E116", "A variable of a TensorFlow job has a wrong value",
     "Correct the variable that the message names ([toolkits](toolkits.md#tensorflow))."},
    {"E117", "The site's policy does not allow this",
     "Keep to the limits, images and accounts that the message names, or ask the admin "
     "([site.lua](site.md))."},
    {"E118", "A secret cannot be read",
     "Set the variable, or make the file one that only you can read, as the message says "
     "([secrets](secrets.md))."},
    {"E119", "The job cannot be run again in this way",
     "Change `retry` or `checkpoint` as the message says "
     "([checkpoints and retries](checkpoints.md))."},
    {"E120", "A mount option is not known or not allowed",
     "Remove the option, or use one of those that the message lists "
     "([volumes](volumes.md))."},
    {"E121", "There is no key for a storage account",
     "Set `AZURE_BATCHAI_STORAGE_ACCOUNT` and `AZURE_BATCHAI_STORAGE_KEY`, or give "
     "`credentials.accountKey`. The admin can name a `credentials_file` in `site.lua` "
     "instead."},
    {"E131", "A directory of `software` is not an absolute path",
     "Write an absolute path, or one that begins with `~/` "
     "([surroundings](surroundings.md#software))."},
    {"E132", "A snapshot of the program cannot be made",
     "Name another directory, or exclude what makes it too large "
     "([surroundings](surroundings.md#snapshot))."},
    {"E133", "The URL of a webhook cannot be used",
     "Give a whole URL that begins with `https://` "
     "([surroundings](surroundings.md#notification))."},
    {"E122", "The points of a sweep cannot be run",
     "Change `sweep`, or what uses its parameters, as the message says ([sweeps](sweeps.md))."},
    {"E134", "What `watch` asks for cannot be watched",
     "Change `watch` as the message says ([stuck jobs](stuck.md#watch))."},
    {"E135", "A spare node cannot have as many GPUs as each of the other nodes",
     "Say with `gpus-per-node` how many GPUs each node has ([spare nodes](spare-nodes.md))."},
    {"W200", "A variable that a text refers to is not known",
     "Define the variable in `environmentVariables`, or correct its name. A command line is "
     "expanded on the node, where more variables are known."},
    {"W201", "Nothing is mounted at an output directory",
     "Mount a volume there if the outputs are to be kept: they are deleted when the job "
     "ends."},
    {"W202", "Several ranks share a GPU",
     "Use at most as many processes as GPUs: otherwise, tensors go through host memory."},
    {"W203", "A setting has no effect here",
     "Remove the setting, or do what the message says that it needs."},
    {"W231", "A variable replaces what `software` sets",
     "Remove the variable, or set it in a module or in the command line "
     "([surroundings](surroundings.md#software))."},
}};

static_assert(std::ranges::none_of(finding_kinds, &std::string_view::empty, &FindingKind::remedy),
              "each code says what to do");

// Collects all faults of one job file. take() returns them in the order of their positions.
class Findings {
  public:
    explicit Findings(const job::PositionTable& positions) : positions_(positions) {}

    // `pointer` is the JSON pointer of the value at fault. It may be empty; the position is then
    // 0:0.
    void add(Finding finding, std::string_view pointer, std::string message, std::string hint = {});

    void add(job::Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }

    [[nodiscard]] std::vector<job::Diagnostic> take();

  private:
    const job::PositionTable& positions_;
    std::vector<job::Diagnostic> diagnostics_;
};

}  // namespace batchai::plan
