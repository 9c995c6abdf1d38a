// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/planning.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/process.hpp"
#include "cli/output/output.hpp"
#include "clusters/view.hpp"
#include "clusters/volume_flags.hpp"
#include "job/parse.hpp"
#include "job/schema/storage_account.hpp"
#include "job/schema/sweep_parameters.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/findings.hpp"
#include "plan/make.hpp"
#include "plan/sbatch_words.hpp"
#include "record/job_files.hpp"
#include "record/plan_file.hpp"
#include "record/sweep_file.hpp"
#include "slurm/client.hpp"
#include "slurm/own_environment.hpp"
#include "snapshot/copy.hpp"
#include "spank/protocol.h"
#include "status/resource_view.hpp"
#include "submit/image.hpp"
#include "submit/local_secrets.hpp"
#include "user/config.hpp"

namespace batchai::submit {

namespace {

// One byte more than the parser accepts, so that the parser reports a file that is too large.
constexpr std::size_t read_limit = job::maximum_file_size + 1;

// Returns nothing if no account is named.
base::Result<std::optional<job::StorageAccount>> storage_account(const JobFileOptions& options) {
    std::optional<std::string> key;
    if (options.storage_account_key)
        key = TRY(clusters::storage_key_of_option(*options.storage_account_key));
    const auto of_environment = base::variable("AZURE_BATCHAI_STORAGE_ACCOUNT");
    const auto name = options.storage_account_name ? options.storage_account_name : of_environment;
    // The environment's key is that of the environment's account, if it names one.
    if (!key && (!of_environment || of_environment == name))
        key = clusters::storage_key_of_environment();
    if (!name) return std::nullopt;
    return job::StorageAccount{.name = *name, .key = std::move(key)};
}

// A cluster that a job is sent to.
struct ChosenCluster {
    store::ClusterKey key;
    plan::ClusterView view;
    std::vector<std::string> notices;
};

// Returns nothing if the job is not sent to a named cluster.
base::Result<std::optional<ChosenCluster>> find_cluster(
    const store::Store& store, const plan::Identity& identity, const PlanningChoices& choices,
    const std::optional<std::string>& id_in_file,
    const std::optional<job::StorageAccount>& account) {
    const auto& name_or_id = choices.cluster ? choices.cluster : id_in_file;
    if (!name_or_id) return std::nullopt;
    const store::WorkspaceKey own{identity.resource_group, identity.workspace};
    auto key = status::cluster_key(*name_or_id, own);
    if (!key) {
        key.error().where = choices.cluster ? "--cluster" : "cluster.id";
        if (!choices.cluster) key.error().exit_code = base::ExitCode::bad_job_file;
        return tl::unexpected(std::move(key).error());
    }
    ChosenCluster chosen{.key = *key,
                         .view = {.name = key->cluster, .vm_size = {}, .node_limit = {}},
                         .notices = {}};
    const auto cluster = store.cluster(*key);
    if (!cluster) {
        const auto& error = cluster.error();
        if (error.exit_code != base::ExitCode::not_found) return tl::unexpected(error);
        const auto missing =
            fmt::format("The specified cluster {} is not found in the workspace {} of the group {}",
                        key->cluster, key->workspace, key->group);
        if (choices.cluster_must_exist)
            return base::fail(missing, "", error.text(), base::ExitCode::not_found);
        chosen.notices.push_back(
            fmt::format("{}, so nothing of it is checked: {}", missing, error.what));
        return chosen;
    }
    chosen.view.vm_size = cluster->vm_size;
    chosen.view.mount_volumes = TRY(clusters::cluster_volumes(*cluster, account));
    chosen.view.setup_task = clusters::setup_task_of(*cluster);
    chosen.view.node_limit = clusters::node_limit(*cluster);
    if (key->parent() != own)
        chosen.notices.push_back(
            fmt::format("the cluster {} is that of the workspace {} in the group {}, as its id "
                        "says; the job is "
                        "of the workspace {} in the group {}",
                        key->cluster, key->workspace, key->group, own.workspace, own.group));
    return chosen;
}

plan::Submission submission_of(const store::Store& store, const JobFileOptions& options,
                               plan::Identity identity, std::optional<plan::ClusterView> cluster,
                               const std::string& job_directory) {
    plan::Submission submission;
    submission.identity = std::move(identity);
    submission.identity.cluster = cluster ? cluster->name : "";
    submission.cluster = std::move(cluster);
    submission.job_directory = job_directory;
    submission.user_id = getuid();
    if (const auto* entry = getpwuid(getuid())) {
        submission.user_name = entry->pw_name;
        submission.home = entry->pw_dir;
    }
    // Slurm gives the batch script the home directory of the password file, unless the user's
    // environment sets another.
    if (const auto home = base::variable("HOME"); home && home->starts_with('/'))
        submission.home = *home;
    std::error_code code;
    const auto here = std::filesystem::current_path(code);
    submission.working_directory = code ? "/" : here.string();
    submission.file_directory = submission.working_directory;
    if (options.path != "-") {
        const auto file = std::filesystem::weakly_canonical(options.path, code);
        if (!code) submission.file_directory = file.parent_path().string();
    }
    submission.storage_root = store.storage_root().string();
    submission.ignore_container = options.ignore_container;
    submission.login_environment = login_environment();
    submission.slurm.flags = options.slurm;
    return submission;
}

void sort_by_position(std::vector<job::Diagnostic>& diagnostics) {
    std::stable_sort(diagnostics.begin(), diagnostics.end(), [](const auto& a, const auto& b) {
        return std::tie(a.position.line, a.position.column) <
               std::tie(b.position.line, b.position.column);
    });
    diagnostics.erase(std::unique(diagnostics.begin(), diagnostics.end()), diagnostics.end());
}

// Returns whether the contents of the job file caused the error, not the registry or the network.
bool is_fault_of_file(const base::Error& error) {
    return error.exit_code == base::ExitCode::not_found ||
           error.exit_code == base::ExitCode::refused;
}

// Turns the registry's error into a diagnostic at the position of the image or of its credentials.
std::vector<job::Diagnostic> image_fault(const base::Error& error, const job::JobSpec& spec,
                                         const job::PositionTable& positions) {
    const bool credentials = error.exit_code == base::ExitCode::refused &&
                             login_of(*spec.container_settings).has_value();
    plan::Findings findings(positions);
    findings.add(plan::Finding::bad_image,
                 fmt::format("/properties/containerSettings/imageSourceRegistry/{}",
                             credentials ? "credentials" : "image"),
                 fmt::format("{}: {}", error.where, error.what), error.hint);
    return findings.take();
}

// Adds what --sweep and --sweep-max say.
base::Result<void> add_sweep_flags(job::JobSpec& spec, const JobFileOptions& options) {
    if (options.sweep.empty() && !options.sweep_max) return {};
    if (options.sweep.empty() && !spec.sweep)
        return base::fail("there is no sweep to limit", "--sweep-max",
                          "give parameters with --sweep, or \"sweep\" in the job file",
                          base::ExitCode::usage);
    if (!spec.sweep) spec.sweep.emplace();
    for (const std::string& text : options.sweep) {
        if (spec.sweep->parameters_as_given.is_array())
            return base::fail("the job file has a list of points, which takes no other parameters",
                              "--sweep", "add the parameter to each point in the file",
                              base::ExitCode::usage);
        job::add_sweep_parameter(*spec.sweep, TRY(job::sweep_parameter_of_flag(text)));
    }
    if (options.sweep_max) spec.sweep->max_concurrent = options.sweep_max;
    const auto fault = job::fault_of(*spec.sweep);
    if (fault) return base::fail(fault->message, "--sweep", fault->hint, base::ExitCode::usage);
    return {};
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void finish(Planning& planning, const JobText& text) {
    sort_by_position(planning.diagnostics);
    if (!planning.diagnostics.empty()) {
        planning.report = job::render_all(planning.diagnostics, text.name, text.text);
    }
    if (!planning.planned) return;
    for (const auto& notice : planning.planned->plan.notices)
        planning.report += fmt::format("batchai: {}\n", notice);
}

struct ImageSearch {
    const store::Store& store;
    const site::Site& site;
    const job::PositionTable& positions;
    const JobFileOptions& options;
    const PlanningChoices& choices;
};

// Puts the image's data into the plan. If the image is not available, the diagnostics say why.
base::Result<void> find_image(const ImageSearch& search, const job::JobSpec& spec,
                              plan::Submission& submission, plan::Made& made) {
    const auto& settings = *spec.container_settings;
    const auto reference = image::parse(settings.image, settings.server_url);
    const bool in_registry = !reference || reference->kind == image::Kind::registry;
    const ImageQuestion question = search.choices.image;
    if (question == ImageQuestion::not_asked) return {};
    if (question == ImageQuestion::without_network && in_registry) {
        const bool pinned = reference && !reference->digest.empty();
        made.plan->container->digest = pinned ? reference->digest : "resolved at submission";
        return {};
    }
    auto image = resolve_image(search.store, search.site, settings);
    if (image) {
        submission.image = std::move(image->container);
        made = plan::make(spec, search.positions, search.site, submission);
        if (made.plan)
            made.plan->notices.insert(made.plan->notices.end(), image->notices.begin(),
                                      image->notices.end());
        return {};
    }
    if (search.options.job_image || !is_fault_of_file(image.error()))
        return tl::unexpected(image.error());
    made.plan.reset();
    append(made.diagnostics, image_fault(image.error(), spec, search.positions));
    return {};
}

// Says what a snapshot has that a user may not expect.
void describe(const plan::Snapshot& snapshot, const snapshot::Listing& listing,
              std::vector<std::string>& notices) {
    const record::Snapshot made = snapshot::described(snapshot, listing);
    std::string text =
        fmt::format("the snapshot of {} has {} files, {}", job::printable(snapshot.source),
                    made.files, snapshot::size_text(made.bytes));
    if (made.commit)
        text += fmt::format(" (git commit {}{})",
                            made.commit->empty() ? "none" : made.commit->substr(0, 12),
                            *made.dirty ? ", with changes" : "");
    notices.push_back(std::move(text));
    const auto name = [&](const std::vector<std::string>& paths, std::string_view what) {
        if (!paths.empty())
            notices.push_back(fmt::format("{} {} (in all {})", job::printable(paths.front()), what,
                                          paths.size()));
    };
    name(listing.not_frozen,
         "is a link with an absolute path: what it leads to is not in the snapshot and may change");
    name(listing.left_out, "is no file, directory or link, and is not in the snapshot");
    for (const std::string& why : listing.why_no_repository)
        notices.push_back(fmt::format("all files are copied, because git cannot be asked: {}",
                                      job::printable(why)));
}

// Lists the directory of the snapshot, if the plan has one.
void list_snapshot(const SecretHolders& holders, const job::PositionTable& positions,
                   plan::Made& made, std::optional<snapshot::Listing>& listing) {
    if (!made.plan || !made.plan->snapshot) return;
    auto listed = snapshot::list(*made.plan->snapshot, secret_files(holders));
    if (listed) {
        describe(*made.plan->snapshot, *listed, made.plan->notices);
        listing = std::move(*listed);
        return;
    }
    plan::Findings findings(positions);
    findings.add(plan::Finding::bad_snapshot, "/properties/snapshot",
                 fmt::format("{}: {}", listed.error().where, listed.error().what),
                 listed.error().hint);
    append(made.diagnostics, findings.take());
    made.plan.reset();
}

}  // namespace

base::Result<JobText> read_job_file(const std::string& path) {
    if (path == "-") {
        JobText out{"<stdin>", std::string(read_limit, '\0')};
        std::cin.read(out.text.data(), static_cast<std::streamsize>(out.text.size()));
        out.text.resize(static_cast<std::size_t>(std::cin.gcount()));
        if (std::cin.bad()) return base::fail("cannot read standard input");
        return out;
    }
    std::error_code code;
    if (std::filesystem::is_regular_file(path, code) &&
        std::filesystem::file_size(path, code) > read_limit) {
        return base::fail("the file is larger than 1 MiB", path, "is it a job file?",
                          base::ExitCode::bad_job_file);
    }
    auto text = base::read_file(path, read_limit);
    if (!text) {
        auto error = text.error();
        if (std::filesystem::is_fifo(path, code)) error.hint = "give \"-\" to read a pipe on stdin";
        return tl::unexpected(std::move(error));
    }
    return JobText{path, std::move(*text)};
}

std::string job_name_from_file(const std::string& path) {
    auto name = path == "-" ? std::string() : std::filesystem::path(path).stem().string();
    for (char& c : name) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x80 || (std::isalnum(byte) == 0 && c != '_' && c != '-')) c = '-';
    }
    name.resize(std::min<std::size_t>(name.size(), 60));
    const bool empty = name.find_first_not_of('-') == std::string::npos;
    return empty ? "job" : name;
}

base::Result<Planning> plan_job(const store::Store& store, const site::Site& site,
                                const JobText& text, const JobFileOptions& options,
                                const PlanningChoices& choices, const plan::Identity& identity,
                                const std::string& job_directory) {
    Planning planning;
    auto parsed = job::parse(text.text);
    planning.diagnostics = std::move(parsed.diagnostics);
    if (!parsed.spec) {
        finish(planning, text);
        return planning;
    }
    auto& spec = *parsed.spec;
    TRY(add_sweep_flags(spec, options));
    const auto account = TRY(storage_account(options));
    TRY(clusters::add_volumes(spec, options.volumes,
                              account ? std::optional(account->name) : std::nullopt));
    auto faults = job::apply_storage_account(spec, account, parsed.positions);
    const bool no_account = job::has_error(faults);
    append(planning.diagnostics, std::move(faults));
    if (no_account) {
        // The planner is not called: without the volumes it would only report consequences of this
        // fault.
        finish(planning, text);
        return planning;
    }
    auto cluster = TRY(find_cluster(store, identity, choices, spec.cluster_id, account));
    const SecretHolders holders{.spec = spec,
                                .of_cluster = cluster ? &cluster->view.mount_volumes : nullptr};
    auto variables = secret_variables(holders);
    if (choices.read_secrets) {
        auto unread = read_local_secrets(holders, parsed.positions);
        const bool failed = job::has_error(unread);
        append(planning.diagnostics, std::move(unread));
        if (failed) {
            finish(planning, text);
            return planning;
        }
    }
    if (options.snapshot) {
        auto& snapshot = spec.snapshot ? *spec.snapshot : spec.snapshot.emplace();
        // A relative path of the command line begins where the command runs.
        if (!options.snapshot->empty())
            snapshot.directory = std::filesystem::absolute(*options.snapshot).string();
    }
    if (options.job_image && !options.ignore_container)
        TRY(apply_job_image(spec, *options.job_image));
    auto submission =
        submission_of(store, options, identity,
                      cluster ? std::optional(cluster->view) : std::nullopt, job_directory);
    submission.slurm.defaults = TRY(user::user_config()).slurm;
    submission.slurm.words = TRY(plan::read_sbatch_words(options.sbatch_words));
    auto made = plan::make(spec, parsed.positions, site, submission);
    // The registry is asked only if the plan has no other errors.
    if (made.plan && made.plan->container)
        TRY(find_image({store, site, parsed.positions, options, choices}, spec, submission, made));
    std::optional<snapshot::Listing> listing;
    if (choices.read_secrets) list_snapshot(holders, parsed.positions, made, listing);
    append(planning.diagnostics, std::move(made.diagnostics));
    if (made.plan && !job::has_error(planning.diagnostics)) {
        if (cluster) append(made.plan->notices, std::move(cluster->notices));
        std::string sweep_json;
        if (made.sweep) {
            sweep_json = record::to_json(*made.sweep);
            made.plan->sweep->digest = base::sha256_hex(sweep_json);
        }
        auto json = record::to_json(*made.plan);
        auto digest = base::sha256_hex(json);
        planning.planned = Planned{.spec = std::move(spec),
                                   .plan = std::move(*made.plan),
                                   .cluster = cluster ? std::optional(cluster->key) : std::nullopt,
                                   .json = std::move(json),
                                   .digest = std::move(digest),
                                   .mount_secrets = std::move(made.mount_secrets),
                                   .snapshot = std::move(listing),
                                   .sweep = std::move(made.sweep),
                                   .sweep_json = std::move(sweep_json),
                                   .secret_variables = std::move(variables)};
    }
    finish(planning, text);
    return planning;
}

base::Result<std::vector<std::string>> secret_variables_of(const store::Store& store,
                                                           const site::Site& site,
                                                           const JobText& text) {
    auto parsed = job::parse(text.text);
    if (!parsed.spec)
        return base::fail("has errors", text.name, "`batchai validate` shows them",
                          base::ExitCode::bad_job_file);
    const auto parent = user::experiment_key({});
    plan::Identity identity;
    identity.subscription = site.subscription;
    identity.resource_group = parent.group;
    identity.workspace = parent.workspace;
    auto cluster = TRY(find_cluster(store, identity, {.cluster_must_exist = false},
                                    parsed.spec->cluster_id, std::nullopt));
    return secret_variables(
        {.spec = *parsed.spec, .of_cluster = cluster ? &cluster->view.mount_volumes : nullptr});
}

base::Result<void> write_plan(const std::string& job_directory, const Planned& planned,
                              const std::function<base::Result<void>()>& tick) {
    const record::JobFiles files(job_directory);
    if (planned.snapshot)
        TRY(snapshot::copy(*planned.plan.snapshot, *planned.snapshot, files, tick));
    TRY(base::write_atomically(files.plan(), planned.json, 0600));
    if (planned.sweep) TRY(base::write_atomically(files.sweep(), planned.sweep_json, 0600));
    base::Value::Object secrets;
    for (const auto& secret : planned.spec.secrets) {
        if (secret.value) secrets.emplace_back(secret.name, *secret.value);
    }
    for (const auto& [name, value] : planned.mount_secrets)
        secrets.emplace_back(name, value);
    if (!secrets.empty())
        TRY(base::write_atomically(files.secrets(), base::format_json(secrets), 0600));
    const auto& settings = planned.spec.container_settings;
    const auto login = settings ? login_of(*settings) : std::nullopt;
    const auto reference = settings ? image::parse(settings->image, settings->server_url)
                                    : image::Parsed(image::Reference{});
    if (!planned.plan.container || !login || !reference) return {};
    return base::write_atomically(image::auth_file_of_job(job_directory),
                                  image::auth_file_text(reference->registry, *login), 0600);
}

base::Environment submission_environment() {
    base::Environment environment = slurm::scrubbed_environment();
    environment.emplace_back(BATCHAI_CLEAN_UP_VARIABLE "=1");
    return environment;
}

std::string launcher_path() {
    std::error_code code;
    auto path = std::filesystem::read_symlink("/proc/self/exe", code);
    return code ? "batchai" : path.string();
}

namespace {

constexpr std::array<std::string_view, 12> of_another_job{
    "SLURM_", "_SLURM_", "SLURMD_", "SBATCH_",  "SALLOC_",  "SRUN_",
    "SPANK_", "PMIX_",   "PMI_",    "BATCHAI_", "AZ_BATCH", "AZURE_BATCHAI_"};

bool is_handed_on(std::string_view name) {
    return std::none_of(of_another_job.begin(), of_another_job.end(),
                        [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::map<std::string, std::string> login_environment() {
    std::map<std::string, std::string> out;
    for (const std::string& entry :
         slurm::without_variables_of_a_job(base::environment_without({}))) {
        const std::string_view text(entry);
        const std::size_t sign = text.find('=');
        if (sign == 0 || sign == std::string_view::npos) continue;
        const std::string_view name = text.substr(0, sign);
        const std::string_view value = text.substr(sign + 1);
        if (is_handed_on(name) && job::is_utf8(name) && job::is_utf8(value))
            out.emplace(name, value);
    }
    return out;
}

}  // namespace batchai::submit
