// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/output/output.hpp"
#include "clusters/volume_flags.hpp"
#include "submit/submission.hpp"
#include "user/parents.hpp"

// The command line as a CLI11 tree. Parsing, --help, the man pages and completion all use this
// tree.
namespace batchai::cli {

struct GlobalOptions {
    std::string output = "json";
    std::optional<std::string> query;
    std::optional<std::string> subscription;  // without effect: a site is one subscription
    bool verbose = false;
    bool debug = false;
    bool only_show_errors = false;
    // The values of --ids, which expand_ids() has replaced before parsing.
    std::vector<std::string> ids;
};

struct CommandTree {
    CLI::App app{"Runs Batch AI jobs on a Slurm cluster", "batchai"};
    GlobalOptions global;
    // What parsing has to say about options without a meaning here (AzureOption).
    std::vector<std::string> refused_options;
    std::vector<std::string> noted_options;
    // The action of the verb on the command line. Parsing sets it.
    std::function<Answer()> action;
};

inline constexpr const char* resource_arguments = "Resource Id Arguments";
inline constexpr const char* volume_arguments = "Volumes Arguments";
inline constexpr const char* slurm_arguments = "Slurm Arguments";
inline constexpr const char* global_arguments = "Global Arguments";

// Verbs that print by themselves have no --output and no --query. Those that the Azure CLI has
// accept both without effect.
enum class Printing { by_engine, by_itself, by_itself_as_az };

// Adds a group of verbs such as "job" or "job file".
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& description);

CLI::App* add_leaf(CommandTree& tree, CLI::App& parent, const std::string& name,
                   const std::string& description, const std::string& example, Printing printing);

// Adds a verb with options of its own, which live as long as the tree.
template <typename Options>
std::pair<CLI::App*, std::shared_ptr<Options>> add_verb(CommandTree& tree, CLI::App& parent,
                                                        const std::string& name,
                                                        const std::string& description,
                                                        const std::string& example,
                                                        Answer (*verb)(const Options&),
                                                        Printing printing = Printing::by_engine) {
    auto options = std::make_shared<Options>();
    auto* leaf = add_leaf(tree, parent, name, description, example, printing);
    leaf->callback(
        [&tree, options, verb] { tree.action = [options, verb] { return verb(*options); }; });
    return {leaf, options};
}

// Adds an option that leaves `value` empty if it is not given.
template <typename T>
CLI::Option* add_optional(CLI::App& leaf, const std::string& names, std::optional<T>& value,
                          const std::string& description) {
    return leaf.add_option_function<T>(
        names, [&value](const T& given) { value = given; }, description);
}

void add_group_option(CLI::App& leaf, user::ParentOptions& parents);
void add_workspace_option(CLI::App& leaf, user::ParentOptions& parents);  // and the group's option
void add_experiment_option(CLI::App& leaf,
                           user::ParentOptions& parents);  // and the options of both
// Adds the options that name one job. In a group below "job" its own name is --job.
void add_job_options(CLI::App& leaf, user::JobName& name, const std::string& names = "--job,-j");
// Adds --task, which names a task of an array job.
void add_task_option(CLI::App& leaf, std::optional<int>& task, const std::string& description);
void add_yes_options(CLI::App& leaf, bool& yes, bool& no_wait);

void add_image_options(CLI::App& leaf,
                       submit::JobFileOptions& file);  // --job-image, --ignore-container

// Adds an option for each of Slurm's options that a job file may have.
void add_slurm_options(CLI::App& leaf, job::SlurmSettings& slurm);

// Adds --afs-name, --bfs-name and --nfs, and for each an option for its mount path below `root`.
// `whose` completes the description "File share that …".
void add_volume_options(CLI::App& leaf, clusters::VolumeFlags& volumes, const std::string& whose,
                        const std::string& root);

// A row of the table of verbs, which is not written down in one place: each file with verbs has a
// constant of this type, which adds its row before main() begins. So a new verb is one new file.
class Verbs {
  public:
    // `group` is where the verbs belong ("job", "storage file"), or empty for the program itself. A
    // row with a shorter `group` makes that group. --help shows the rows of a group in the order of
    // their places, of which no two are alike. `add` adds the verbs.
    Verbs(std::string_view group, int place, void (*add)(CommandTree& tree, CLI::App& group));
};

// Makes the tree of all verbs that are registered.
[[nodiscard]] std::unique_ptr<CommandTree> make_tree();

// Returns the completion script for "bash", "zsh" or "fish" of the program under this name, which
// is "batchai" or "az". It completes commands, options, and file names where a file is expected.
// The script starts no program. The one for "az" does nothing if "az" is not a link to batchai.
[[nodiscard]] std::string completion_script(const CLI::App& app, const std::string& shell,
                                            const std::string& name = "batchai");

// Returns the names of the manual pages: "batchai", and "batchai-<command>" for each top-level
// command.
[[nodiscard]] std::vector<std::string> manual_pages(const CLI::App& app);

// Returns one of these pages in roff with the man macros. It has no date, so that builds are
// reproducible.
[[nodiscard]] base::Result<std::string> manual_page(const CLI::App& app, const std::string& page,
                                                    const std::string& version);

}  // namespace batchai::cli
