// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/slurm_conf.hpp"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t conf_limit = 8UL << 20U;

// Replaces "%n" and "%h", which stand for the node and its host in slurm.conf.
std::string with_names(std::string text, std::string_view node, std::string_view host) {
    for (const auto& [token, name] :
         {std::pair(std::string_view("%n"), node), std::pair(std::string_view("%h"), host)}) {
        for (auto at = text.find(token); at != std::string::npos;
             at = text.find(token, at + name.size()))
            text.replace(at, token.size(), name);
    }
    return text;
}

}  // namespace

SlurmConf read_slurm_conf(const std::string& file) {
    std::vector<std::string> candidates{"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf",
                                        "/etc/slurm-llnl/slurm.conf"};
    if (!file.empty()) candidates.insert(candidates.begin(), file);
    for (const std::string& path : candidates) {
        if (auto text = base::read_file(path, conf_limit))
            return {.path = path, .text = std::move(*text)};
    }
    return {};
}

bool is_fetched(const std::string& file) {
    // /run/slurm/conf is a link to that directory in SlurmdSpoolDir.
    std::error_code error;
    const std::filesystem::path place = std::filesystem::weakly_canonical(file, error);
    return !error && place.parent_path().filename() == "conf-cache";
}

std::optional<std::string> slurm_conf_value(std::string_view slurm_conf, std::string_view key) {
    const std::string wanted = base::lower(key);
    std::optional<std::string> found;
    for (std::string_view line : base::split(slurm_conf, '\n')) {
        line = base::trim(line.substr(0, line.find('#')));
        const std::size_t sign = line.find('=');
        if (sign == std::string_view::npos) continue;
        if (base::lower(base::trim(line.substr(0, sign))) == wanted)
            found = std::string(base::trim(line.substr(sign + 1)));
    }
    return found;
}

bool may_have_several_slurmds(std::string_view slurm_conf) {
    const auto spool = slurm_conf_value(slurm_conf, "SlurmdSpoolDir");
    return spool && spool->find("%n") != std::string::npos;
}

std::string spool_directory(std::string_view slurm_conf, std::string_view node,
                            std::string_view host) {
    const auto found = slurm_conf_value(slurm_conf, "SlurmdSpoolDir");
    return found ? with_names(*found, node, host) : "/var/spool/slurmd";
}

}  // namespace batchai::node
