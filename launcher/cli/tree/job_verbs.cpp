// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/builder.hpp"
#include "cli/verbs/job.hpp"
#include "cli/verbs/job_file.hpp"
#include "cli/verbs/job_node.hpp"

namespace batchai::cli {
namespace {

void add_name(CLI::App& leaf, JobOptions& options) {
    leaf.add_option("--name,-n", options.name, "Name of the job")
        ->type_name("NAME")
        ->required()
        ->group(resource_arguments);
    add_experiment_option(leaf, options.parents);
}

void add_create(CommandTree& tree, CLI::App& group) {
    auto [leaf, options] =
        add_verb(tree, group, "create", "Submit a job",
                 "batchai job create --name train --cluster nc6 --config-file job.json\n"
                 "  batchai job create --config-file job.json --dry-run",
                 job_create);
    add_optional(*leaf, "--name,-n", options->name, "Name of the job [the file's name]")
        ->type_name("NAME")
        ->group(resource_arguments);
    add_experiment_option(*leaf, options->parents);
    add_optional(*leaf, "--cluster,-c", options->cluster,
                 "Name or id of the cluster [the file's, else the site's default nodes]")
        ->type_name("NAME");
    leaf->add_option("--config-file,-f", options->file.path, "job.json; - is standard input")
        ->type_name("FILE")
        ->required();
    add_optional(*leaf, "--storage-account-name", options->file.storage_account_name,
                 "Storage account of the file's placeholders and of --afs-name and --bfs-name "
                 "[$AZURE_BATCHAI_STORAGE_ACCOUNT]")
        ->type_name("NAME");
    add_optional(*leaf, "--storage-account-key", options->file.storage_account_key,
                 "Its key, or @FILE; better given as $AZURE_BATCHAI_STORAGE_KEY")
        ->type_name("KEY");
    leaf->add_flag("--dry-run", options->dry_run,
                   "Print the plan and the batch script; submit and change nothing");
    add_image_options(*leaf, options->file);
    add_volume_options(*leaf, options->file.volumes, "the job has besides the file's",
                       "$AZ_BATCHAI_JOB_MOUNT_ROOT");
}

void add_file_options(CLI::App& leaf, JobFileListOptions& options) {
    leaf.add_option("--job,-j", options.job, "Name of the job")
        ->type_name("NAME")
        ->required()
        ->group(resource_arguments);
    add_experiment_option(leaf, options.parents);
    leaf.add_option("--output-directory-id,-d", options.directory_id,
                    "stdouterr, or the id of an output directory [stdouterr]")
        ->type_name("ID");
    leaf.add_option("--path,-p", options.path, "Path below the directory [.]")->type_name("PATH");
}

void add_file_verbs(CommandTree& tree, CLI::App& job) {
    auto& group = *add_group(job, "file", "List and follow the files that a job writes");
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List a job's files",
                     "batchai job file list --job train --output table", job_file_list);
        add_file_options(*leaf, *options);
        leaf->add_option("--expiry", options->expiry,
                         "Accepted for the Azure CLI's sake: a file:// URL does not expire")
            ->type_name("MINUTES");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "stream", "Show a job's file as it grows, until the job ends",
                     "batchai job file stream --job train --file-name stdout.txt", job_file_stream,
                     Printing::by_itself);
        add_file_options(*leaf, *options);
        leaf->add_option("--file-name,-f", options->file_name, "Name of the file")
            ->type_name("NAME")
            ->required();
    }
}

void add_node_options(CLI::App& leaf, JobNodeOptions& options) {
    leaf.add_option("--job,-j", options.job, "Name of the job")
        ->type_name("NAME")
        ->required()
        ->group(resource_arguments);
    add_experiment_option(leaf, options.parents);
}

void add_node_verbs(CommandTree& tree, CLI::App& job) {
    auto& group = *add_group(job, "node", "List and enter the nodes of a job that runs");
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the nodes of a job that runs",
                     "batchai job node list --job train --output table", job_node_list);
        add_node_options(*leaf, *options);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "exec",
            "Run a command, or a shell, where a running job runs: with its container, volumes and "
            "variables",
            "batchai job node exec --job train\n"
            "  batchai job node exec --job train --node-id n2 --exec 'nvidia-smi; df -h'",
            job_node_exec, Printing::by_itself);
        add_node_options(*leaf, *options);
        add_optional(*leaf, "--node-id,--node,-n", options->node, "Node of the job [the first]")
            ->type_name("NODE");
        add_optional(*leaf, "--exec", options->command,
                     "Command for the shell; the exit code is its own [an interactive shell]")
            ->type_name("COMMAND");
        leaf->add_flag("--pty,-t", options->terminal,
                       "Give the command a terminal, as a shell has that is started from one");
        const std::string note = " (accepted; the node is reached through Slurm, not by SSH)";
        add_optional(*leaf, "--password,-p", options->password, "Password" + note)
            ->type_name("TEXT");
        add_optional(*leaf, "--ssh-private-key,-k", options->ssh_private_key,
                     "File of the SSH key" + note)
            ->type_name("FILE");
        add_unsupported(*leaf, "--address,-L", "Port to forward");
    }
}

}  // namespace

void add_job_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "job", "Submit and follow jobs");
    const std::string example = "batchai job ";
    add_create(tree, group);
    {
        auto [leaf, options] =
            add_verb(tree, group, "show", "Show a job",
                     example + "show --name train --query executionState", job_show);
        add_name(*leaf, *options);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "list", "List the jobs of an experiment",
                                        example + "list --output table", job_list);
        add_experiment_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "wait", "Wait until a job has ended; exit with its exit code",
                     example + "wait --name train", job_wait, Printing::by_itself);
        add_name(*leaf, *options);
        leaf->add_option("--interval", options->interval,
                         "Longest pause between two questions to Slurm [15]")
            ->type_name("SECONDS")
            ->check(CLI::Range(1, 3600));
    }
    {
        auto [leaf, options] = add_verb(tree, group, "terminate", "Stop a job; its record stays",
                                        example + "terminate --name train --yes", job_terminate);
        add_name(*leaf, *options);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete",
                     "Delete a job, after stopping it if it runs; its output files stay",
                     example + "delete --name train --yes", job_delete);
        add_name(*leaf, *options);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
    add_file_verbs(tree, group);
    add_node_verbs(tree, group);
}

}  // namespace batchai::cli
