// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output/output.hpp"
#include "cli/tree/parser.hpp"
#include "clusters/volume_flags.hpp"
#include "submit/submission.hpp"
#include "user/parents.hpp"

// What files with verbs use to add them to the tree (tree.hpp).
namespace batchai::cli {

struct CommandTree;

inline constexpr const char* resource_arguments = "Resource Id Arguments";
inline constexpr const char* volume_arguments = "Volumes Arguments";
inline constexpr const char* slurm_arguments = "Slurm Arguments";
inline constexpr const char* global_arguments = "Global Arguments";

// Verbs that print by themselves have no --output and no --query. Those that the Azure CLI has
// accept both without effect.
enum class Printing { by_engine, by_itself, by_itself_as_az };

// Adds a group of verbs such as "job" or "job file".
Parser add_group(Parser parent, const std::string& name, const std::string& description);

// Adds a verb that does `action`.
Parser add_leaf(CommandTree& tree, Parser parent, const std::string& name,
                const std::string& description, const std::string& example, Printing printing,
                std::function<Answer()> action);

// Adds a verb with options of its own, which live as long as the tree.
template <typename Options>
std::pair<Parser, std::shared_ptr<Options>> add_verb(CommandTree& tree, Parser parent,
                                                     const std::string& name,
                                                     const std::string& description,
                                                     const std::string& example,
                                                     Answer (*verb)(const Options&),
                                                     Printing printing = Printing::by_engine) {
    auto options = std::make_shared<Options>();
    const Parser leaf = add_leaf(tree, parent, name, description, example, printing,
                                 [options, verb] { return verb(*options); });
    return {leaf, options};
}

void add_group_option(Parser leaf, user::ParentOptions& parents);
void add_workspace_option(Parser leaf, user::ParentOptions& parents);  // and the group's option
void add_experiment_option(Parser leaf,
                           user::ParentOptions& parents);  // and the options of both
// Adds the options that name one job. In a group below "job" its own name is --job.
void add_job_options(Parser leaf, user::JobName& name, const std::string& names = "--job,-j");
// Adds --task, which names a task of an array job.
void add_task_option(Parser leaf, std::optional<int>& task, const std::string& description);
void add_yes_options(Parser leaf, bool& yes, bool& no_wait);

void add_image_options(Parser leaf,
                       submit::JobFileOptions& file);  // --job-image, --ignore-container

// Adds an option for each of Slurm's options that a job file may have.
void add_slurm_options(Parser leaf, job::SlurmSettings& slurm);

// Adds --afs-name, --bfs-name and --nfs, and for each an option for its mount path below `root`.
// `whose` completes the description "File share that …".
void add_volume_options(Parser leaf, clusters::VolumeFlags& volumes, const std::string& whose,
                        const std::string& root);

// A row of the table of verbs, which is not written down in one place: each file with verbs has a
// constant of this type, which adds its row before main() begins. So a new verb is one new file.
class Verbs {
  public:
    // `group` is where the verbs belong ("job", "storage file"), or empty for the program itself. A
    // row with a shorter `group` makes that group. --help shows the rows of a group in the order of
    // their places, of which no two are alike. `add` adds the verbs.
    Verbs(std::string_view group, int place, void (*add)(CommandTree& tree, Parser group));
};

}  // namespace batchai::cli
