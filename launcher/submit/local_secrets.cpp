// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/local_secrets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "job/schema/checks.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/findings.hpp"
#include "plan/paths.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

// A secret and the two keys that may say where it is. Only one of the four can be present.
struct Place {
    std::string pointer;  // of the object that has the keys
    const std::optional<std::string>& from_env;
    const std::optional<std::string>& from_file;
    std::optional<std::string>& value;
    job::Check check = job::Check::anything;  // what the value must be
};

// More than a variable of a job can hold.
constexpr std::size_t file_limit = 128UL << 10U;
// All secrets of a job together. Nodes read them from a file of at most 1 MiB, in which a byte can
// take six characters.
constexpr std::size_t limit_of_all = file_limit;

void visit(job::MountVolumes& volumes, const std::string& root,
           const std::function<void(const Place&)>& seen) {
    job::each_volume(volumes, [&]<typename Volume>(Volume& volume, std::size_t index) {
        if constexpr (requires { volume.credentials; }) {
            if (!volume.credentials) return;
            auto& credentials = *volume.credentials;
            seen({fmt::format("{}/{}/{}/credentials", root, Volume::key, index),
                  credentials.from_env, credentials.from_file, credentials.account_key,
                  job::Check::word});
        }
    });
}

void visit(const SecretHolders& holders, const std::function<void(const Place&)>& seen) {
    job::JobSpec& spec = holders.spec;
    for (std::size_t i = 0; i < spec.secrets.size(); ++i)
        seen({fmt::format("/properties/secrets/{}", i), spec.secrets[i].from_env,
              spec.secrets[i].from_file, spec.secrets[i].value});
    if (spec.container_settings && spec.container_settings->credentials) {
        auto& credentials = *spec.container_settings->credentials;
        seen({"/properties/containerSettings/imageSourceRegistry/credentials", credentials.from_env,
              credentials.from_file, credentials.password});
    }
    if (spec.notification && spec.notification->webhook) {
        auto& webhook = *spec.notification->webhook;
        seen({"/properties/notification/webhook", webhook.from_env, webhook.from_file, webhook.url,
              job::Check::word});
    }
    visit(spec.mount_volumes, "/properties/mountVolumes", seen);
    // A volume of the cluster has no place in the file.
    if (holders.of_cluster != nullptr) visit(*holders.of_cluster, "cluster", seen);
}

// A secret that somebody has written in the place of its name is not shown.
std::string shown_name(const std::string& name) {
    return job::looks_like_secret(name) ? job::quote_name(name) : name;
}

// Takes variables out of this process's environment. Several secrets can be in the same variable.
class Variables {
  public:
    std::optional<std::string> take(const std::string& name) {
        if (char* const value = std::getenv(name.c_str())) {
            taken_[name] = value;
            // After unsetenv(), /proc still shows the memory of the initial environment.
            explicit_bzero(value, std::strlen(value));
            unsetenv(name.c_str());
        }
        const auto found = taken_.find(name);
        return found == taken_.end() ? std::nullopt : std::optional(found->second);
    }

  private:
    std::map<std::string, std::string> taken_;
};

base::Result<std::string> from_variable(Variables& variables, const std::string& name) {
    auto value = variables.take(name);
    if (!value)
        return base::fail(
            fmt::format("the variable {} is not set in the shell that submits the job",
                        shown_name(name)),
            {},
            job::looks_like_secret(name) ? "write the name of a variable, not the secret itself"
                                         : fmt::format("export {}=…, and submit again", name));
    return std::move(*value);
}

base::Result<std::string> path_of(const std::string& written) {
    const auto home = base::variable("HOME").value_or("");
    std::string path = plan::below_home(written, home);
    if (path.starts_with('/')) return path;
    return base::fail(fmt::format("{}: the variable HOME is not an absolute path", written), {},
                      "write an absolute path");
}

base::Result<std::string> from_path(const std::string& written) {
    const std::string path = TRY(path_of(written));
    auto text = base::read_private_file_guarded(path, file_limit);
    if (!text) {
        const std::string& where = text.error().where;
        return base::fail(fmt::format("{}: {}", where.empty() ? path : where, text.error().what),
                          {}, text.error().hint);
    }
    // Editors and `echo` end the text with a line break.
    if (text->ends_with('\n')) {
        text->pop_back();
        if (text->ends_with('\r')) text->pop_back();
    }
    return std::move(*text);
}

// Returns what keeps the value from being used; it is never quoted.
std::optional<std::string> fault_of(const std::string& value, job::Check check) {
    if (value.empty()) return "is empty";
    if (!job::is_utf8(value)) return "is not UTF-8 text";
    if (value.starts_with("\xef\xbb\xbf")) return "begins with a byte order mark";
    if (value.ends_with('\n') || value.ends_with('\r')) return "has an empty line at its end";
    if (value.find('\0') != std::string::npos) return "has a zero byte";
    if (job::check_text(check, value)) return "has blanks or control characters, which no key has";
    return std::nullopt;
}

struct Reading {
    plan::Findings findings;
    Variables variables = {};
    std::size_t left = limit_of_all;  // how many bytes the job's secrets may still have
};

void read_one(const Place& place, Reading& reading) {
    auto& [findings, variables, left] = reading;
    const bool env = place.from_env.has_value();
    if (!env && !place.from_file) return;
    const std::string pointer = place.pointer + (env ? "/fromEnv" : "/fromFile");
    auto value = env ? from_variable(variables, *place.from_env) : from_path(*place.from_file);
    if (!value) {
        findings.add(plan::Finding::no_secret, pointer, value.error().what, value.error().hint);
    } else if (const auto fault = fault_of(*value, place.check)) {
        findings.add(plan::Finding::no_secret, pointer,
                     fmt::format("{} {} {}", env ? "the variable" : "the text of",
                                 env ? shown_name(*place.from_env) : *place.from_file, *fault));
    } else if (value->size() > left) {
        findings.add(
            plan::Finding::no_secret, pointer,
            fmt::format("the secrets of the job have more than {} bytes together", limit_of_all),
            "give the job the path of a file instead");
    } else {
        left -= value->size();
        place.value = std::move(*value);
    }
}

}  // namespace

SecretHolders holders_of(Submission& submission) {
    auto& cluster = submission.cluster;
    return {.spec = submission.spec,
            .of_cluster = cluster ? &cluster->view.mount_volumes : nullptr};
}

std::vector<job::Diagnostic> read_local_secrets(const SecretHolders& holders,
                                                const job::PositionTable& positions) {
    Reading reading{.findings = plan::Findings(positions)};
    visit(holders, [&](const Place& place) { read_one(place, reading); });
    return reading.findings.take();
}

std::vector<std::string> secret_files(const SecretHolders& holders) {
    std::vector<std::string> paths;
    visit(holders, [&](const Place& place) {
        if (!place.from_file) return;
        if (const auto path = path_of(*place.from_file)) paths.push_back(*path);
    });
    return paths;
}

std::vector<std::string> secret_variables(const SecretHolders& holders) {
    std::vector<std::string> names;
    visit(holders, [&](const Place& place) {
        if (place.from_env && std::find(names.begin(), names.end(), *place.from_env) == names.end())
            names.push_back(*place.from_env);
    });
    return names;
}

base::Result<void> read_secrets(Submission& submission) {
    const SecretHolders holders = holders_of(submission);
    submission.secret_variables = secret_variables(holders);
    if (submission.goal == Goal::checked) return {};
    auto unread = read_local_secrets(holders, submission.positions);
    std::move(unread.begin(), unread.end(), std::back_inserter(submission.diagnostics));
    return {};
}

base::Result<std::vector<std::string>> secret_variables_of_file(Submission& submission) {
    TRY(name_job(submission));
    TRY(read_job_file(submission));
    if (!submission.is_sound())
        return base::fail("has errors", submission.text.name, "`batchai validate` shows them",
                          base::ExitCode::bad_job_file);
    TRY(find_cluster(submission));
    return secret_variables(holders_of(submission));
}

}  // namespace batchai::submit
