// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/image.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/timestamp.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "record/plan_file.hpp"

namespace batchai::submit {

namespace {

std::string user_name() {
    const auto* entry = getpwuid(getuid());
    return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

}  // namespace

base::Result<void> apply_job_image(job::JobSpec& spec, const std::string& image) {
    const auto wanted = image::parse(image);
    if (!wanted)
        return base::fail(wanted.error().what, "--job-image", wanted.error().hint,
                          base::ExitCode::usage);
    if (!spec.container_settings) spec.container_settings.emplace();
    job::ContainerSettings& settings = *spec.container_settings;
    const auto before = image::parse(settings.image, settings.server_url);
    if (!before || before->registry != wanted->registry) settings.credentials.reset();
    settings.image = image;
    settings.server_url.reset();
    return {};
}

std::optional<image::Login> login_of(const job::ContainerSettings& settings) {
    if (!settings.credentials || !settings.credentials->password) return std::nullopt;
    return image::Login{settings.credentials->username, *settings.credentials->password};
}

image::Places image_places(const store::Store& store, const site::Site& site) {
    return image::places_of(site, store.home().string(), user_name());
}

base::Result<image::Resolved> resolve_image(const store::Store& store, const site::Site& site,
                                            const job::ContainerSettings& settings) {
    const auto reference = image::parse(settings.image, settings.server_url);
    if (!reference) return base::fail(reference.error().what, {}, reference.error().hint);
    const auto access = TRY(image::access_for(*reference, site, login_of(settings)));
    return image::resolve(*reference, settings.image, image_places(store, site), access, {});
}

base::Result<image::Ensured> ensure_image(const store::Store& store, const slurm::Client& slurm,
                                          const plan::Container& container,
                                          const image::Access& access) {
    // The signals that end a program are held, so that an interrupted import can remove what it has
    // written.
    const base::HeldSignals stop{SIGINT, SIGTERM, SIGHUP};
    bool stopped = false;
    image::ProgressPrinter printer;
    image::EnsureOptions options;
    options.limit = container.cache_limit;
    options.in_use = [&] { return images_in_use(store, slurm); };
    options.watch.interrupted = [&] { return stopped = stopped || stop.next(); };
    options.show = [&](const image::Progress& progress) { printer.show(progress); };
    // The default image directory is inside the user's record directory, which may not exist yet.
    TRY(base::make_directories(store.home(), 0700));
    return image::ensure(container, access, options);
}

namespace {

namespace fs = std::filesystem;

constexpr auto longest_wait = std::chrono::hours(24 * 28);
// `batchai run` may be killed before it records an end, so one that is missing proves nothing for
// ever.
constexpr auto longest_run = std::chrono::hours(24 * 365);
constexpr auto kept_after_end = std::chrono::hours(24 * 7);

fs::path root_of(const store::Store& store) {
    return store.home() / "hand-over";
}

struct Life {
    bool needed = true;
    base::Time last_sign;
};

base::Time time_of_change(const fs::path& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return base::now();
    return base::Time(std::chrono::seconds(status.st_mtim.tv_sec));
}

Life life_of(const fs::path& directory) {
    const record::JobFiles files(directory);
    Life life{.needed = false, .last_sign = time_of_change(directory)};
    bool has_run = false;
    for (const record::JobFiles& of_task : files.with_array_tasks()) {
        const auto attempt = record::latest_attempt(of_task);
        // A record that cannot be read does not prove that the job has ended.
        if (!attempt) return Life{.needed = true, .last_sign = base::now()};
        if (!*attempt) continue;
        has_run = true;
        const bool open = !(*attempt)->end || (*attempt)->runs_again();
        const bool runs = open && base::now() - (*attempt)->start <= longest_run;
        life.needed = life.needed || runs;
        life.last_sign = std::max(life.last_sign, (*attempt)->end.value_or((*attempt)->start));
    }
    if (!has_run) life.needed = base::now() - life.last_sign <= longest_wait;
    return life;
}

std::vector<fs::path> all_directories(const store::Store& store) {
    std::vector<fs::path> out;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(root_of(store), code)) {
        if (entry.is_directory(code) && !entry.is_symlink(code)) out.push_back(entry.path());
    }
    return out;
}

}  // namespace

fs::path handed_over_directory(const store::Store& store, const std::string& uuid) {
    return root_of(store) / uuid;
}

std::vector<fs::path> needed_hand_overs(const store::Store& store) {
    std::vector<fs::path> out;
    for (fs::path& directory : all_directories(store)) {
        if (life_of(directory).needed) out.push_back(std::move(directory));
    }
    return out;
}

void prune_handed_over(const store::Store& store) {
    for (const fs::path& directory : all_directories(store)) {
        const Life life = life_of(directory);
        std::error_code code;
        if (!life.needed && base::now() - life.last_sign > kept_after_end)
            fs::remove_all(directory, code);
    }
}

namespace {

void add_image_of(const fs::path& plan_file, std::set<std::string>& digests) {
    const auto text = base::read_file(plan_file);
    if (!text) return;
    const auto plan = record::plan_from_json(*text);
    if (plan && plan->container && !plan->container->digest.empty())
        digests.insert(plan->container->digest);
}

bool has_ended(const fs::path& job_directory) {
    const auto attempt = record::latest_attempt(record::JobFiles(job_directory));
    return attempt && *attempt && (*attempt)->end && !(*attempt)->runs_again();
}

// Returns the directories of the jobs that have no recorded end, by Slurm job id.
std::map<std::string, fs::path> open_jobs(const store::Store& store) {
    std::map<std::string, fs::path> out;
    const auto groups = store.groups();
    if (!groups) return out;
    for (const auto& group : *groups) {
        const auto workspaces = store.workspaces(group.name);
        if (!workspaces) continue;
        for (const auto& workspace : *workspaces) {
            const auto jobs = store.jobs_of_workspace(workspace.key);
            if (!jobs) continue;
            for (const auto& job : *jobs) {
                fs::path directory = store.job_files(job.key).directory();
                if (!has_ended(directory)) out[job.slurm_job_id] = std::move(directory);
            }
        }
    }
    return out;
}

}  // namespace

std::set<std::string> images_in_use(const store::Store& store, const slurm::Client& slurm) {
    std::set<std::string> digests;
    for (const fs::path& directory : needed_hand_overs(store))
        add_image_of(record::JobFiles(directory).plan(), digests);
    const auto jobs = open_jobs(store);
    if (jobs.empty()) return digests;
    std::vector<std::string> ids;
    ids.reserve(jobs.size());
    for (const auto& [id, directory] : jobs)
        ids.push_back(id);
    const auto statuses = slurm.jobs(ids);
    for (const auto& [id, directory] : jobs) {
        if (statuses) {
            const auto found = statuses->find(id);
            if (found == statuses->end() || slurm::is_final(found->second.state)) continue;
        }
        add_image_of(record::JobFiles(directory).plan(), digests);
    }
    return digests;
}

}  // namespace batchai::submit
