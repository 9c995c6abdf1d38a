// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmix_offer.hpp"

#include <array>
#include <cctype>
#include <string_view>

#include <unistd.h>

namespace mpi_bridge {
namespace {

constexpr std::string_view uri_prefix = "PMIX_SERVER_URI";
// The newest comes first; the one without a number belongs to version 1.
constexpr std::array uri_generations{"61", "6", "51", "5", "41", "4", "3", "21", "2", ""};

// The first number in a version's text: 4 for "OpenPMIx 4.2.2rc2", -1 if there is none.
int major_version(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
        int major = 0;
        while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0)
            major = major * 10 + (text[i++] - '0');
        return major;
    }
    return -1;
}

bool names_any(std::string_view list, std::initializer_list<std::string_view> words) {
    for (const auto word : words) {
        if (list.find(word) != std::string_view::npos) return true;
    }
    return false;
}

std::string user_id_clause(const Environment& environment) {
    const auto owner = environment("SLURM_JOB_UID");
    const auto own = std::to_string(geteuid());
    if (!owner || *owner == own) return {};
    return "; this process has user id " + own + " but the job belongs to " + *owner +
           ", and the server accepts its owner only: let the container map the user to its own id";
}

}  // namespace

PmixOffer pmix_offer(const Environment& environment) {
    PmixOffer offer;
    offer.server_version = environment("PMIX_VERSION").value_or("");
    for (const char* generation : uri_generations) {
        const std::string variable = std::string(uri_prefix) + generation;
        const auto uri = environment(variable.c_str());
        if (!uri) continue;
        offer.generations.emplace_back(generation);
        // The form is NAMESPACE.RANK;ADDRESS.
        const auto separator = uri->find(';');
        if (offer.address.empty() && separator != std::string::npos) {
            offer.address = uri->substr(separator + 1);
        }
    }
    return offer;
}

std::string pmix_versions(const std::string& client_version, const PmixOffer& offer) {
    std::string text = "PMIx client library " + client_version + ", server " +
                       (offer.server_version.empty() ? "unknown" : offer.server_version);
    if (offer.generations.empty()) return text;
    text.append(" (offers ").append(uri_prefix);
    const char* separator = "";
    for (const auto& generation : offer.generations) {
        text.append(separator).append(generation);
        separator = "/";
    }
    return text + ")";
}

std::string likely_reasons(const Environment& environment, const std::string& client_version,
                           const PmixOffer& offer) {
    std::string text;
    const int client = major_version(client_version);
    const int server = major_version(offer.server_version);
    if (client > 0 && server > 0 && client != server) {
        text +=
            "; the versions differ: if the two do not understand each other, let this process "
            "load the PMIx library of the launcher, or one of version " +
            std::to_string(server);
    }
    if (offer.generations.empty()) {
        return text +
               "; the environment names no server: the container or script that starts this "
               "process must pass on PMIX_SERVER_URI* with the other PMIX_* variables";
    }
    if (offer.address.empty()) {
        return text + "; the environment's PMIX_SERVER_URI* hold no address";
    }
    text += "; the server was to be at " + offer.address +
            ": the process must share the launcher's network namespace";
    text += user_id_clause(environment);
    const auto security = environment("PMIX_SECURITY_MODE").value_or("");
    if (names_any(security, {"munge"}) && !names_any(security, {"native"})) {
        text += "; the server accepts MUNGE credentials only, so a container needs MUNGE's socket";
    }
    return text;
}

std::vector<PmixSetting> settings_for_surroundings(
    const Environment& environment,
    const std::function<bool(const std::string& directory)>& reachable) {
    std::vector<PmixSetting> settings;
    const auto stores = environment("PMIX_GDS_MODULE").value_or("");
    if (environment("PMIX_MCA_gds") || !names_any(stores, {"ds12", "ds21", "shmem"})) {
        return settings;
    }
    for (const char* variable :
         {"PMIX_DSTORE_21_BASE_PATH", "PMIX_DSTORE_ESH_BASE_PATH", "PMIX_SERVER_TMPDIR"}) {
        const auto directory = environment(variable);
        if (!directory || reachable(*directory)) continue;
        settings.push_back({"PMIX_MCA_gds", "hash",
                            "the PMIx server's files in " + *directory +
                                " are not to be seen from here: its values come by message"});
        break;
    }
    return settings;
}

std::vector<PmixSetting> settings_for_relocation(
    const Environment& environment, const std::string& library,
    const std::function<bool(const std::string& directory)>& reachable) {
    const auto slash = library.rfind('/');
    if (slash == std::string::npos || environment("PMIX_INSTALL_PREFIX")) return {};
    const auto prefix = library.substr(0, slash + 1) + relocated_prefix;
    if (!reachable(prefix)) return {};
    return {{"PMIX_INSTALL_PREFIX", prefix, "libpmix was moved from where it was installed"}};
}

}  // namespace mpi_bridge
