// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/uuid.hpp"
#include "cli/report/job_image.hpp"
#include "cli/verbs/job.hpp"
#include "cli/verbs/surroundings.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"

namespace batchai::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kept_for = std::chrono::hours(24 * 7);

// A plan belongs to a job that may wait in the queue for long: only those whose job has ended go,
// and those that no job ever took up (srun was interrupted, sbatch refused) after four times that.
bool may_go(const fs::path& directory) {
    const auto attempt = record::latest_attempt(record::JobFiles(directory));
    if (!attempt) return false;
    const auto now = base::now();
    if (*attempt) return (*attempt)->end && now - *(*attempt)->end > kept_for;
    struct stat status {};
    if (stat(directory.c_str(), &status) != 0) return false;
    const base::Time changed{std::chrono::seconds(status.st_mtim.tv_sec)};
    return now - changed > 4 * kept_for;
}

// Best effort: what cannot be removed now is found again next time.
void prune(const fs::path& root) {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(root, code)) {
        if (entry.is_directory(code) && !entry.is_symlink(code) && may_go(entry.path())) {
            fs::remove_all(entry.path(), code);
        }
    }
}

plan::Identity identity_of(const HandOverOptions& options, const site::Site& site) {
    const auto parent = experiment_key({});
    return {site.subscription,
            parent.group,
            parent.workspace,
            parent.experiment,
            job_name_from_file(options.file.path),
            "",
            base::random_uuid()};
}

// Nobody may run `batchai run` in this job, and nodes pull nothing: the image has to be there
// before the first task. While it is pulled, no node waits yet.
base::Result<void> have_image(const Surroundings& here, const plan::Plan& plan) {
    if (!plan.container) return {};
    const auto access =
        image::access_of_job(plan.container->source, plan.directories.job_directory, here.site);
    if (!access) return tl::unexpected(access.error());
    const auto ensured = ensure_image(here.store, here.site, here.slurm, *plan.container, *access);
    if (!ensured) return tl::unexpected(ensured.error());
    return {};
}

base::Result<void> freeze(const fs::path& directory, const Planned& planned) {
    const record::JobFiles files(directory);
    for (const auto& path : {directory, files.attempts(), files.shared()}) {
        auto made = base::make_directories(path, 0700);
        if (!made) return made;
    }
    return write_plan(directory.string(), planned);
}

}  // namespace

namespace {

struct HandedOver {
    fs::path directory;
    Planned planned;
};

// Nothing: the file has faults, which have been printed.
base::Result<std::optional<HandedOver>> plan_and_freeze(const Surroundings& here,
                                                        const HandOverOptions& options) {
    const auto text = read_job_file(options.file.path);
    if (!text) return tl::unexpected(text.error());
    const auto identity = identity_of(options, here.site);
    const auto root = here.store.home() / "hand-over";
    const auto directory = root / identity.uuid;
    auto file = options.file;
    file.resolve_image = true;
    auto planning =
        plan_job(here.store, here.site, *text, file, {{}, false}, identity, directory.string());
    if (!planning) return tl::unexpected(planning.error());
    fmt::print(stderr, "{}", planning->report);
    if (!planning->planned) return std::nullopt;
    prune(root);
    const auto frozen = freeze(directory, *planning->planned);
    if (!frozen) return tl::unexpected(frozen.error());
    return HandedOver{directory, std::move(*planning->planned)};
}

}  // namespace

Answer hand_over(const HandOverOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto made = plan_and_freeze(*here, options);
    if (!made) return tl::unexpected(made.error());
    if (!*made) return Outcome{{}, {}, static_cast<int>(base::ExitCode::bad_job_file)};
    const auto& [directory, planned] = **made;
    const auto image = have_image(*here, planned.plan);
    if (!image) {
        std::error_code code;
        fs::remove_all(directory, code);
        return tl::unexpected(image.error());
    }
    fmt::print("BATCHAI_PLAN={}\nBATCHAI_PLAN_DIGEST={}\n",
               record::JobFiles(directory).plan().string(), planned.digest);
    return Outcome{};
}

base::Result<std::optional<FrozenPlan>> freeze_plan(const HandOverOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto made = plan_and_freeze(*here, options);
    if (!made) return tl::unexpected(made.error());
    if (!*made) return std::nullopt;
    return FrozenPlan{record::JobFiles((*made)->directory).plan().string(),
                      (*made)->planned.digest};
}

Answer validate(const ValidateOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto text = read_job_file(options.file.path);
    if (!text) return tl::unexpected(text.error());
    const auto parent = experiment_key({});
    const plan::Identity identity{here->site.subscription,
                                  parent.group,
                                  parent.workspace,
                                  parent.experiment,
                                  job_name_from_file(options.file.path),
                                  "",
                                  "00000000-0000-0000-0000-000000000000"};
    const auto directory =
        here->store.job_files({parent.group, parent.workspace, parent.experiment, identity.job});
    const auto planning = plan_job(here->store, here->site, *text, options.file, {{}, false},
                                   identity, directory.directory().string());
    if (!planning) return tl::unexpected(planning.error());
    const int code = planning->planned ? 0 : static_cast<int>(base::ExitCode::bad_job_file);
    if (options.format == "json") {
        fmt::print("{}", job::diagnostics_json(planning->diagnostics, text->name));
    } else {
        fmt::print(stderr, "{}", planning->report);
        if (code == 0) fmt::print("{}: valid\n", text->name);
    }
    return Outcome{{}, {}, code};
}

}  // namespace batchai::cli
