// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "admin/checks.hpp"
#include "admin/diagnosis.hpp"
#include "admin/findings_view.hpp"
#include "admin/host_facts.hpp"
#include "admin/installation.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/temporary_directory.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "status/job_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct DiagOptions {
    std::string job;
    user::ParentOptions parents;
    std::string file;
};

// Adds a part, or says why it is missing.
void add_part(admin::Diagnosis& diagnosis, const std::string& name,
              base::Result<std::string> part) {
    if (part)
        diagnosis.files.insert_or_assign(name, std::move(*part));
    else
        diagnosis.missing.push_back(fmt::format("{}: {}", name, part.error().text()));
}

base::Result<std::string> job_as_shown(const Context& here, const store::JobKey& key) {
    const auto view = TRY(status::view_job(here.store, here.slurm, key));
    Value value = status::to_value(view);
    value.set("attempts", TRY(status::attempts_value(here.store, view)));
    return base::format_json(value);
}

base::Result<std::string> slurm_configuration(const slurm::Client& client) {
    std::string out;
    for (const auto& [key, value] : TRY(client.configuration()))
        out += fmt::format("{} = {}\n", key, value);
    return out;
}

base::Result<std::string> installation() {
    Value::Array out;
    for (admin::InstalledSetting& setting : TRY(admin::installed_settings()))
        out.emplace_back(Value::Object{{"key", std::move(setting.key)},
                                       {"value", std::move(setting.value)},
                                       {"origin", std::move(setting.origin)}});
    return base::format_json(Value(std::move(out)));
}

std::string checks_of_this_host() {
    const admin::HostFacts host = admin::look_at_host();
    admin::HostFindings checked{.version = BATCHAI_VERSION, .host = host.host, .time = host.time};
    checked.slurm = host.slurm_version.value_or(std::string(admin::not_known));
    admin::judge_all(admin::host_checks(), host, checked.host, checked.checks);
    return admin::report_text(checked);
}

Answer admin_diag(const DiagOptions& options) {
    if (geteuid() == 0 && !base::variable("BATCHAI_HOME"))
        return base::fail("the records of a job belong to its user", "batchai admin diag",
                          "run it as that user, for example with sudo -u USER -i",
                          base::ExitCode::usage);
    const auto here = TRY(open_context());
    const auto key = user::job_key({.job = options.job, .parents = options.parents});
    const auto job = TRY(here.store.get<store::Job>(key));
    // Root must not write where another user can change what a path leads to.
    TRY(base::check_own_directory(std::filesystem::weakly_canonical(here.store.home())));
    const record::JobFiles files = here.store.job_files(key);
    const auto secrets = TRY(admin::secrets_of(files));
    const std::string path =
        options.file.empty() ? fmt::format("batchai-diag-{}.tar.gz", job.key.job) : options.file;
    admin::Diagnosis diagnosis;
    admin::add_job_files(diagnosis, files);
    add_part(diagnosis, "job-show.json", job_as_shown(here, key));
    if (const auto id = slurm::JobId::parse(job.slurm_job_id))
        add_part(diagnosis, "slurm-job.txt", here.slurm.all_about(*id));
    add_part(diagnosis, "slurm-config.txt", slurm_configuration(here.slurm));
    add_part(diagnosis, "installation.json", installation());
    add_part(diagnosis, "admin-check.txt", checks_of_this_host());
    if (!diagnosis.missing.empty())
        diagnosis.files.insert_or_assign("missing.txt",
                                         fmt::format("{}\n", fmt::join(diagnosis.missing, "\n")));
    const auto scratch = TRY(base::TemporaryDirectory::make(here.store.home(), "diag-"));
    TRY(admin::write_archive(diagnosis, secrets, scratch.path().string(),
                             fmt::format("batchai-diag-{}", job.key.job), path));
    for (const std::string& missing : diagnosis.missing)
        say("missing: " + missing);
    say(
        fmt::format("{} has {} files. Known secrets are masked, but what the job has printed may "
                    "contain others: look at it before you send it.",
                    path, diagnosis.files.size()));
    return Outcome{};
}

}  // namespace

const Verbs admin_diag_verbs("admin", 10, [](CommandTree& tree, Parser group) {
    auto [leaf, options] = add_verb(
        tree, group, "diag",
        "Put everything that is known of a job into one archive, with its secrets masked",
        "batchai admin diag train --file train-diag.tar.gz", admin_diag, Printing::by_itself);
    leaf.add_option("job", options->job, "Name of the job").type_name("NAME").required();
    leaf.add_option("--file,-f", options->file,
                    "The archive, which must not exist yet [batchai-diag-NAME.tar.gz]")
        .type_name("FILE");
    add_experiment_option(leaf, options->parents);
});

}  // namespace batchai::cli
