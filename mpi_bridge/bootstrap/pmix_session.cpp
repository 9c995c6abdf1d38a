// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmix_session.hpp"

#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/pmix_offer.hpp"
#include "core/bounded_call.hpp"
#include "core/ending_signals.hpp"
#include "core/environment.hpp"
#include "core/environment_overlay.hpp"
#include "core/log.hpp"

namespace mpi_bridge {
namespace {

constexpr Seconds longest_pmix_goodbye{2};

// Never destroyed, because signals and exit handlers of other libraries may come at any time.
std::atomic<PmixSession*> the_pmix_session{nullptr};

std::string client_version() {
    std::string text = PMIx_Get_version();
    if (const auto end = text.find(" (PMIx"); end != std::string::npos) text.resize(end);
    constexpr std::string_view name = "OpenPMIx ";
    return text.starts_with(name) ? text.substr(name.size()) : text;
}

// One value about the whole step. PMIX_OPTIONAL restricts the search to what the launcher told this
// process at its start. Without it a missing key becomes a question to a rank that does not exist,
// and some servers never answer that.
class JobValue {
  public:
    JobValue(const pmix_proc_t& self, const char* key) {
        const auto whole_job = process_of(self, PMIX_RANK_WILDCARD);
        pmix_info_t optional;
        PMIX_INFO_CONSTRUCT(&optional);
        const bool yes = true;
        PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
        status_ = PMIx_Get(&whole_job, key, &optional, 1, &value_);
        PMIX_INFO_DESTRUCT(&optional);
    }
    JobValue(const JobValue&) = delete;
    JobValue& operator=(const JobValue&) = delete;
    ~JobValue() {
        if (value_ != nullptr) PMIX_VALUE_RELEASE(value_);
    }

    [[nodiscard]] pmix_status_t status() const { return status_; }

    [[nodiscard]] long number() const {
        if (value_ == nullptr) return -1;
        if (value_->type == PMIX_UINT32) return static_cast<long>(value_->data.uint32);
        if (value_->type == PMIX_INT) return value_->data.integer;
        return -1;
    }

  private:
    pmix_value_t* value_ = nullptr;
    pmix_status_t status_ = PMIX_SUCCESS;
};

std::vector<std::string> split(std::string_view list, char separator) {
    std::vector<std::string> parts;
    while (!list.empty()) {
        const auto end = list.find(separator);
        if (end != 0) parts.emplace_back(list.substr(0, end));
        if (end == std::string_view::npos) break;
        list.remove_prefix(end + 1);
    }
    return parts;
}

// Returns the ranks of each host. This takes one local look-up per host, however many ranks there
// are.
Outcome<std::vector<std::vector<int>>> ranks_by_host(const pmix_proc_t& self) {
    char* list = nullptr;
    auto status = PMIx_Resolve_nodes(self.nspace, &list);
    if (status != PMIX_SUCCESS) return pmix_failure("PMIx_Resolve_nodes", status);
    const auto names = split(list == nullptr ? "" : list, ',');
    std::free(list);

    std::vector<std::vector<int>> hosts;
    for (const auto& name : names) {
        pmix_proc_t* processes = nullptr;
        std::size_t count = 0;
        status = PMIx_Resolve_peers(name.c_str(), self.nspace, &processes, &count);
        if (status != PMIX_SUCCESS) {
            return pmix_failure("PMIx_Resolve_peers(" + name + ")", status);
        }
        std::vector<int> ranks;
        for (std::size_t i = 0; i < count; ++i) {
            ranks.push_back(static_cast<int>(processes[i].rank));
        }
        PMIX_PROC_FREE(processes, count);
        hosts.push_back(std::move(ranks));
    }
    return hosts;
}

Outcome<Topology> ask_topology(const pmix_proc_t& self) {
    const JobValue job_size(self, PMIX_JOB_SIZE);
    if (job_size.status() != PMIX_SUCCESS) {
        return pmix_failure("PMIx_Get(PMIX_JOB_SIZE)", job_size.status());
    }
    auto hosts = TRY(ranks_by_host(self));
    auto topology = make_topology(static_cast<int>(self.rank), std::move(hosts));
    if (topology && topology->size != job_size.number()) {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "the launcher speaks of " + std::to_string(job_size.number()) +
                        " ranks but its map of hosts names " + std::to_string(topology->size));
    }
    return topology;
}

struct Connection {
    pmix_proc_t self{};
    Topology topology;
};

// All calls that ask the server and have no deadline of their own.
Outcome<Connection> call_server() {
    Connection connection;
    const auto status = PMIx_Init(&connection.self, nullptr, 0);
    if (status != PMIX_SUCCESS) return pmix_failure("PMIx_Init", status);
    auto topology = ask_topology(connection.self);
    if (!topology) PMIx_Finalize(nullptr, 0);
    connection.topology = TRY(std::move(topology));
    return connection;
}

// Settings that libpmix accepts only through the environment, as variables. They should be visible
// in PMIx_Init, but not to programs that are started later.
std::vector<std::pair<std::string, std::string>> variables_of(
    const std::vector<PmixSetting>& settings) {
    std::vector<std::pair<std::string, std::string>> variables;
    for (const auto& setting : settings) {
        log(LogLevel::info, setting.name + "=" + setting.value + ", because " + setting.reason);
        variables.emplace_back(setting.name, setting.value);
    }
    return variables;
}

tl::unexpected<Failure> with_reasons(Failure failure) {
    if (const auto library = pmix_client_library(); !library.empty())
        failure.text += "; the client library is " + library;
    failure.text +=
        likely_reasons(process_environment, client_version(), pmix_offer(process_environment));
    return tl::unexpected<Failure>(std::move(failure));
}

void leave_pmix_at_exit() {
    if (PmixSession* session = the_pmix_session; session != nullptr) session->leave();
}

bool may_enter(const std::string& directory) {
    return access(directory.c_str(), R_OK | X_OK) == 0;
}

std::vector<PmixSetting> settings_for_init() {
    auto settings = settings_for_surroundings(process_environment, may_enter);
    for (auto& setting :
         settings_for_relocation(process_environment, pmix_client_library(), may_enter)) {
        settings.push_back(std::move(setting));
    }
    return settings;
}

}  // namespace

pmix_proc_t process_of(const pmix_proc_t& self, pmix_rank_t rank) {
    pmix_proc_t process;
    PMIX_LOAD_PROCID(&process, self.nspace, rank);
    return process;
}

std::string pmix_client_library() {
    Dl_info found{};
    const bool known = dladdr(reinterpret_cast<void*>(&PMIx_Init), &found) != 0;
    return known && found.dli_fname != nullptr ? found.dli_fname : "";
}

std::string pmix_versions() {
    return pmix_versions(client_version(), pmix_offer(process_environment));
}

tl::unexpected<Failure> pmix_failure(std::string_view call, pmix_status_t status) {
    const auto kind = status == PMIX_ERR_TIMEOUT ? MPIB_ERROR_TIMEOUT : MPIB_ERROR_BOOTSTRAP;
    return fail(kind, std::string(call) + " failed: " + PMIx_Error_string(status) + " (" +
                          std::to_string(status) + "); " + pmix_versions());
}

PmixSession::PmixSession(const pmix_proc_t& self, Topology topology)
    : self_(self), topology_(std::move(topology)), owner_(getpid()) {}

Outcome<PmixSession*> PmixSession::open(Deadline deadline) {
    static bool stuck = false;
    if (PmixSession* session = the_pmix_session; session != nullptr) {
        if (session->owner_ == getpid() && !session->left_) return session;
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "this process has left its job step, or was forked by one that joined it");
    }
    if (stuck) {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "an earlier attempt to reach the PMIx server is still without an answer");
    }
    const auto start = Clock::now();
    std::optional<Outcome<Connection>> connection;
    {
        const EnvironmentOverlay settings(variables_of(settings_for_init()));
        connection = call_within<Outcome<Connection>>(deadline, call_server);
    }
    if (!connection) {
        stuck = true;
        return with_reasons(pmix_failure("PMIx_Init", PMIX_ERR_TIMEOUT).value());
    }
    if (!*connection) return with_reasons(std::move(*connection).error());

    auto& [self, topology] = **connection;
    static std::once_flag registered;
    std::call_once(registered, [] { std::atexit(leave_pmix_at_exit); });
    auto* const session = new PmixSession(self, std::move(topology));
    the_pmix_session = session;
    set_log_rank(session->topology().rank);
    log(LogLevel::info, pmix_versions());
    log_time("connecting to the PMIx server", start);
    auto prepared = take_leave_on_signals([session] { session->leave(); }, longest_pmix_goodbye);
    if (!prepared) log(LogLevel::warning, prepared.error().text);
    return session;
}

void PmixSession::leave() {
    if (owner_ != getpid() || left_.exchange(true)) return;
    // libpmix waits two seconds for a server that does not answer, but it also waits for its own
    // threads.
    const bool done =
        run_within(Deadline::in(longest_pmix_goodbye), [] { PMIx_Finalize(nullptr, 0); });
    if (!done) log(LogLevel::warning, "the PMIx server did not take note that this process leaves");
}

}  // namespace mpi_bridge
