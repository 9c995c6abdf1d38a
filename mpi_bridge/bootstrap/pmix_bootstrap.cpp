// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <pmix.h>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/pmix_call.hpp"
#include "bootstrap/settle.hpp"

namespace mpi_bridge {
namespace {

tl::unexpected<Failure> pmix_failure(std::string_view call, pmix_status_t status) {
    const auto kind = status == PMIX_ERR_TIMEOUT ? MPIB_ERROR_TIMEOUT : MPIB_ERROR_BOOTSTRAP;
    return fail(kind, std::string(call) + " failed: " + PMIx_Error_string(status) + " (" +
                          std::to_string(status) + "); " + pmix_versions());
}

pmix_proc_t process_of(const pmix_proc_t& self, pmix_rank_t rank) {
    pmix_proc_t process;
    PMIX_LOAD_PROCID(&process, self.nspace, rank);
    return process;
}

// One value about the whole step. PMIX_OPTIONAL: only what the launcher told this process at the
// start. Without it a missing key becomes a question to a rank that does not exist, and some
// servers never answer that.
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

// The ranks of each host: one local look-up per host, whatever the number of ranks.
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

void fence_done(pmix_status_t status, void* ticket) {
    PmixReply<bool>::deliver(ticket, status, true);
}

void value_came(pmix_status_t status, pmix_value_t* value, void* ticket) {
    std::vector<std::byte> bytes;
    if (status == PMIX_SUCCESS) {
        if (value == nullptr || value->type != PMIX_BYTE_OBJECT) {
            status = PMIX_ERR_BAD_PARAM;
        } else {
            bytes.resize(value->data.bo.size);
            if (!bytes.empty()) std::memcpy(bytes.data(), value->data.bo.bytes, bytes.size());
        }
    }
    PmixReply<std::vector<std::byte>>::deliver(ticket, status, std::move(bytes));
}

class PmixBootstrap final : public Bootstrap {
  public:
    PmixBootstrap(const pmix_proc_t& self, const Topology& topology)
        : self_(self), topology_(topology) {}
    PmixBootstrap(const PmixBootstrap&) = delete;
    PmixBootstrap& operator=(const PmixBootstrap&) = delete;
    ~PmixBootstrap() override { leave(); }

    [[nodiscard]] const Topology& topology() const override { return topology_; }

    [[nodiscard]] Done publish(const std::string& key, std::span<const std::byte> value,
                               Deadline deadline) override {
        // PMIx_Put copies the bytes; its struct merely has no const.
        std::vector<std::byte> copy(value.begin(), value.end());
        pmix_value_t blob;
        PMIX_VALUE_CONSTRUCT(&blob);
        blob.type = PMIX_BYTE_OBJECT;
        blob.data.bo.bytes = reinterpret_cast<char*>(copy.data());
        blob.data.bo.size = copy.size();
        auto status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &blob);
        if (status != PMIX_SUCCESS) return pmix_failure("PMIx_Put", status);
        status = PMIx_Commit();
        if (status != PMIX_SUCCESS) return pmix_failure("PMIx_Commit", status);
        let_slurm_settle();
        return fence(deadline);
    }

    [[nodiscard]] Done fence(Deadline deadline) override {
        const auto reply = std::make_shared<PmixReply<bool>>();
        void* ticket = PmixReply<bool>::ticket(reply);
        // The fence carries the published data. Slurm does not wait for the others at all in a
        // fence that carries none (mpi.conf: PMIxFenceBarrier is off by default; seen with
        // 22.05.8), and a value that was not carried must be fetched from a host whose PMIx
        // server ends with its last rank.
        bool carry = true;
        pmix_info_t with_data;
        PMIX_INFO_LOAD(&with_data, PMIX_COLLECT_DATA, &carry, PMIX_BOOL);
        auto status = PMIx_Fence_nb(nullptr, 0, &with_data, 1, fence_done, ticket);
        if (status == PMIX_OPERATION_SUCCEEDED || status != PMIX_SUCCESS) {
            PmixReply<bool>::discard(ticket);
            if (status == PMIX_OPERATION_SUCCEEDED) return {};
            return pmix_failure("PMIx_Fence", status);
        }
        status = reply->wait(deadline);
        if (status != PMIX_SUCCESS) {
            return pmix_failure("rank " + std::to_string(topology_.rank) + ": waiting for all " +
                                    std::to_string(topology_.size) +
                                    " ranks of the step (PMIx_Fence)",
                                status);
        }
        return {};
    }

    [[nodiscard]] Outcome<std::vector<std::byte>> fetch(const std::string& key, int rank,
                                                        Deadline deadline) override {
        const auto owner = process_of(self_, static_cast<pmix_rank_t>(rank));
        using Reply = PmixReply<std::vector<std::byte>>;
        const auto reply = std::make_shared<Reply>();
        void* ticket = Reply::ticket(reply);
        auto status = PMIx_Get_nb(&owner, key.c_str(), nullptr, 0, value_came, ticket);
        if (status == PMIX_SUCCESS) {
            status = reply->wait(deadline);
        } else {
            Reply::discard(ticket);
        }
        if (status != PMIX_SUCCESS) {
            return pmix_failure(
                "asking for the address of rank " + std::to_string(rank) + " (PMIx_Get)", status);
        }
        return reply->take();
    }

    void abort(int code, const std::string& message) override {
        PMIx_Abort(code, message.c_str(), nullptr, 0);
    }

    void close() override { leave(); }

  private:
    void leave() {
        if (!left_) PMIx_Finalize(nullptr, 0);
        left_ = true;
    }

    pmix_proc_t self_;
    Topology topology_;
    bool left_ = false;
};

Outcome<Topology> ask_topology(const pmix_proc_t& self) {
    const JobValue job_size(self, PMIX_JOB_SIZE);
    if (job_size.status() != PMIX_SUCCESS) {
        return pmix_failure("PMIx_Get(PMIX_JOB_SIZE)", job_size.status());
    }
    auto hosts = ranks_by_host(self);
    if (!hosts) return pass_on(std::move(hosts));
    auto topology = make_topology(static_cast<int>(self.rank), std::move(*hosts));
    if (topology && topology->size != job_size.number()) {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "the launcher speaks of " + std::to_string(job_size.number()) +
                        " ranks but its map of hosts names " + std::to_string(topology->size));
    }
    return topology;
}

}  // namespace

std::string pmix_versions() {
    std::string client = PMIx_Get_version();
    if (const auto end = client.find(" (PMIx"); end != std::string::npos) client.resize(end);
    const char* server = std::getenv("PMIX_VERSION");
    return "PMIx client library: " + client +
           ", server: " + (server == nullptr ? "unknown" : server);
}

Outcome<std::unique_ptr<Bootstrap>> connect_pmix() {
    pmix_proc_t self;
    const auto status = PMIx_Init(&self, nullptr, 0);
    if (status != PMIX_SUCCESS) return pmix_failure("PMIx_Init", status);
    auto topology = ask_topology(self);
    if (!topology) {
        PMIx_Finalize(nullptr, 0);
        return pass_on(std::move(topology));
    }
    return std::make_unique<PmixBootstrap>(self, *topology);
}

}  // namespace mpi_bridge
