// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/requeue_delay.hpp"

#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "slurm/release.hpp"

namespace batchai::slurm {

namespace {

// Slurm waits for as long as credentials live. Since 25.11 the delay has a setting of its own,
// which takes precedence (_requeue_delay() in Slurm's src/slurmctld/job_mgr.c).
constexpr Release has_own_setting{25, 11, 0};
constexpr std::string_view of_credentials = "cred_expire=";
constexpr std::string_view of_its_own = "requeue_delay=";

std::string_view value_of(const Configuration& configuration, std::string_view key) {
    const auto found = configuration.find(key);
    return found == configuration.end() ? std::string_view() : found->second;
}

bool has_setting(const Configuration& configuration) {
    const auto release = release_of(value_of(configuration, "SLURM_VERSION"));
    return release && *release >= has_own_setting;
}

// Returns the number that the option has in a list, as atoi() reads it; nothing without the option.
std::optional<int> number_of(std::string_view list, std::string_view option) {
    for (const std::string_view word : base::split(list, ',')) {
        const std::string_view entry = base::trim(word);
        if (!base::lower(entry).starts_with(option)) continue;
        const std::string_view text = entry.substr(option.size());
        int number = 0;
        std::from_chars(text.data(), text.data() + text.size(), number);
        return number;
    }
    return std::nullopt;
}

}  // namespace

std::chrono::seconds requeue_delay(const Configuration& configuration) {
    if (has_setting(configuration)) {
        const auto own = number_of(value_of(configuration, "SchedulerParameters"), of_its_own);
        if (own) return std::chrono::seconds(*own);
    }
    // Slurm takes its default instead of a shorter time.
    constexpr int shortest = 5;
    const auto life = number_of(value_of(configuration, "AuthInfo"), of_credentials);
    return life && *life >= shortest ? std::chrono::seconds(*life) : default_requeue_delay;
}

DelaySetting setting_of_requeue_delay(const Configuration& configuration) {
    if (has_setting(configuration)) return {"SchedulerParameters", "requeue_delay=5"};
    return {"AuthInfo", "cred_expire=60"};
}

}  // namespace batchai::slurm
