// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"

namespace batchai::job {

namespace {

constexpr std::array slurm_fields = {
    text<&SlurmSettings::account>("account", "Account that is charged for the job", R"("physics")")
        .checked(Check::word),
    text<&SlurmSettings::partition>("partition", "Partition, or several separated by commas",
                                    R"("gpu")")
        .checked(Check::option_list),
    text<&SlurmSettings::qos>("qos", "Quality of service", R"("high")").checked(Check::word),
    text<&SlurmSettings::reservation>("reservation", "Reservation, or several separated by commas",
                                      R"("course")")
        .checked(Check::option_list),
    text<&SlurmSettings::constraint>("constraint", "Features that the nodes must have",
                                     R"("a100&ib")")
        .checked(Check::word),
    text<&SlurmSettings::mem>("mem",
                              "Memory on each node: a number and K, M, G or T, or M without one; "
                              "0 stands for all memory",
                              R"("64G")")
        .checked(Check::option_memory),
    text<&SlurmSettings::gres>("gres", "Generic resources on each node", R"("gpu:2,license:1")")
        .checked(Check::option_list),
    text<&SlurmSettings::gpus_per_node>("gpus-per-node", "GPUs on each node, with or without type",
                                        R"("a100:2")")
        .checked(Check::gpu_counts),
    boolean<&SlurmSettings::exclusive>("exclusive", "No other job runs on the job's nodes", "true")
        .defaults_to("the site's, usually true"),
    text<&SlurmSettings::exclude>("exclude", "Nodes that the job must not get", R"("n[1-3],n7")")
        .checked(Check::option_list),
    text<&SlurmSettings::nodelist>("nodelist", "Nodes that the job must get", R"("n[4-5]")")
        .checked(Check::option_list),
    text<&SlurmSettings::dependency>("dependency", "Jobs for which this one waits",
                                     R"("afterok:1234")")
        .checked(Check::word),
    text<&SlurmSettings::begin>("begin", "Earliest start", R"("2030-01-31T12:00:00")")
        .checked(Check::option_text),
    text<&SlurmSettings::mail_type>("mail-type", "Events that are mailed, separated by commas",
                                    R"("END,FAIL")")
        .checked(Check::option_list),
    text<&SlurmSettings::mail_user>("mail-user", "Who gets the mail", R"("ada@example.org")")
        .checked(Check::word)
        .defaults_to("the submitting user"),
    text<&SlurmSettings::licenses>("licenses", "Licences, separated by commas",
                                   R"("matlab:2,ansys")")
        .checked(Check::option_list),
    text<&SlurmSettings::comment>("comment", "Text that Slurm shows for the job", R"("third try")")
        .checked(Check::option_text)
        .defaults_to("`batchai:` and the job's path"),
    text<&SlurmSettings::array>("array",
                                "Indexes of the tasks of an array job, each of which runs the "
                                "whole job",
                                R"("0-15%4")")
        .checked(Check::array_indexes),
};

constexpr std::string_view by_processes = "it follows from \"nodeCount\" and \"processCount\"";
constexpr std::string_view by_cpus =
    "the processes of a node divide its CPUs, which the cluster's VM size sets";
constexpr std::string_view by_log = "the job's logs are below \"stdOutErrPathPrefix\"";
constexpr std::string_view by_records = "the job starts in the directory of its records";
constexpr std::string_view by_environment =
    "the job has the variables of your shell, and those of \"environmentVariables\"";
constexpr std::string_view by_toolkit = "the settings of the toolkit say what the job runs";
constexpr std::string_view by_container = "\"containerSettings\" sets the container";
constexpr std::string_view by_user = "a job runs as the user who submits it";
constexpr std::string_view by_command = "it would keep `job create` from submitting the job";
constexpr std::string_view by_file = "it is an option of `batchai job create`";

constexpr std::array refused = {
    RefusedKey{"nodes", "\"nodeCount\" sets it"},
    RefusedKey{"ntasks", "\"processCount\" of the toolkit sets it"},
    RefusedKey{"ntasks-per-node", by_processes},
    RefusedKey{"ntasks-per-core", by_processes},
    RefusedKey{"ntasks-per-gpu", by_processes},
    RefusedKey{"ntasks-per-socket", by_processes},
    RefusedKey{"cpus-per-task", by_cpus},
    RefusedKey{"cpus-per-gpu", by_cpus},
    RefusedKey{"distribution", by_processes},
    RefusedKey{"time", "\"constraints.maxWallClockTime\" sets it", true},
    RefusedKey{"nice", "\"schedulingPriority\" sets it", true},
    RefusedKey{"job-name", "`batchai job create --name` sets it"},
    RefusedKey{"output", by_log},
    RefusedKey{"error", by_log},
    RefusedKey{"open-mode", by_log},
    RefusedKey{"input", "a job has no standard input"},
    RefusedKey{"chdir", by_records},
    RefusedKey{"export", by_environment},
    RefusedKey{"export-file", by_environment},
    RefusedKey{"get-user-env", by_environment},
    RefusedKey{"wrap", by_toolkit},
    RefusedKey{"external", by_toolkit},
    RefusedKey{"container", by_container},
    RefusedKey{"container-id", by_container},
    RefusedKey{"container-type", by_container},
    RefusedKey{"uid", by_user},
    RefusedKey{"gid", by_user},
    RefusedKey{"clusters", "jobs on other clusters of Slurm are not supported yet"},
    RefusedKey{"wait", "`batchai job wait` waits for a job"},
    RefusedKey{"test-only", "`batchai job create --dry-run --check` does this"},
    RefusedKey{"parsable", by_command},
    RefusedKey{"quiet", "`job create` needs what sbatch prints"},
    RefusedKey{"help", by_command},
    RefusedKey{"usage", by_command},
    RefusedKey{"version", by_command},
    RefusedKey{"job-json", by_file},
    RefusedKey{"job-image", by_file},
    RefusedKey{"ignore-container", by_file},
};

}  // namespace

constexpr Object slurm_object = {
    "Slurm",
    "Options of `sbatch`, by their long names. An extension of Batch AI's schema. The flags of "
    "`batchai "
    "job create` take precedence over these keys, and these over the user's `config.toml` and the "
    "site's settings. What a plan sets itself, such as `nodes` or `output`, is refused.",
    slurm_fields, refused,
    "other options of sbatch can follow \"--\" on the command line of `batchai job create`"};

}  // namespace batchai::job
