// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/slurm_conf.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

using std::chrono::seconds;

constexpr std::size_t conf_limit = 8UL << 20U;
constexpr seconds slurms_default{60};
constexpr seconds to_be_found_dead{5};  // from the end of batchai-node to that of the step
constexpr seconds shortest{2};

}  // namespace

std::string read_slurm_conf(const std::string& file) {
    std::vector<std::string> candidates{"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf",
                                        "/etc/slurm-llnl/slurm.conf"};
    if (!file.empty()) candidates.insert(candidates.begin(), file);
    for (const std::string& path : candidates) {
        if (auto text = base::read_file(path, conf_limit)) return std::move(*text);
    }
    return {};
}

seconds unkillable_step_timeout(std::string_view slurm_conf) {
    seconds found = slurms_default;
    for (const std::string_view line : base::split(slurm_conf, '\n')) {
        const std::string_view said = base::trim(line.substr(0, line.find('#')));
        const std::size_t sign = said.find('=');
        if (sign == std::string_view::npos ||
            base::lower(base::trim(said.substr(0, sign))) != "unkillablesteptimeout")
            continue;
        const std::string_view value = base::trim(said.substr(sign + 1));
        int number = 0;
        const char* const end = value.data() + value.size();
        const auto [stop, error] = std::from_chars(value.data(), end, number);
        if (error == std::errc() && stop == end && number > 0) found = seconds(number);
    }
    return found;
}

seconds flush_of_killed(seconds kill_timeout, seconds unkillable) {
    seconds whole = unkillable - to_be_found_dead;
    if (kill_timeout.count() > 0) whole = std::min(whole, kill_timeout);
    // A quarter for ending rclone and saving.
    return std::max(shortest, whole - whole / 4);
}

}  // namespace batchai::node
