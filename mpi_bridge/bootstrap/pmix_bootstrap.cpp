// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <pmix.h>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/pmix_call.hpp"
#include "bootstrap/pmix_session.hpp"
#include "core/bounded_call.hpp"
#include "core/log.hpp"
#include "core/settle.hpp"

namespace mpi_bridge {
namespace {

constexpr Seconds longest_pmix_abort{2};

// The fence carries the published data. In a fence without data, Slurm does not wait for the other
// ranks at all (mpi.conf: PMIxFenceBarrier is off by default; seen with 22.05.8). Moreover, a value
// that was not carried would have to be fetched from a host whose PMIx server ends with its last
// rank.
struct FenceQuestion {
    FenceQuestion() {
        const bool carry = true;
        PMIX_INFO_LOAD(&with_data, PMIX_COLLECT_DATA, &carry, PMIX_BOOL);
    }
    pmix_info_t with_data;
};
using FenceReply = PmixReply<FenceQuestion, bool>;

struct GetQuestion {
    pmix_proc_t owner;
    std::string key;
};
using GetReply = PmixReply<GetQuestion, std::vector<std::byte>>;

void fence_done(pmix_status_t status, void* ticket) {
    FenceReply::deliver(ticket, status, true);
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
    GetReply::deliver(ticket, status, std::move(bytes));
}

// One use of the session. Keys cannot be withdrawn, so the keys of each use carry its number.
class PmixBootstrap final : public Bootstrap {
  public:
    PmixBootstrap(const PmixSession& session, unsigned use, bool all_tasks_run)
        : self_(session.self()),
          topology_(session.topology()),
          use_(use),
          all_tasks_run_(all_tasks_run) {}

    [[nodiscard]] const Topology& topology() const override { return topology_; }

    [[nodiscard]] Done publish(const std::string& key, std::span<const std::byte> value,
                               Deadline deadline, const std::function<bool()>& given_up) override {
        // PMIx_Put copies the bytes, but its struct takes a pointer to non-const.
        std::vector<std::byte> copy(value.begin(), value.end());
        pmix_value_t blob;
        PMIX_VALUE_CONSTRUCT(&blob);
        blob.type = PMIX_BYTE_OBJECT;
        blob.data.bo.bytes = reinterpret_cast<char*>(copy.data());
        blob.data.bo.size = copy.size();
        const auto put = PMIx_Put(PMIX_GLOBAL, key_of(key).c_str(), &blob);
        if (put != PMIX_SUCCESS) return pmix_failure("PMIx_Put", put);
        const auto commit = call_within<pmix_status_t>(deadline, [] { return PMIx_Commit(); });
        if (commit.value_or(PMIX_ERR_TIMEOUT) != PMIX_SUCCESS) {
            return pmix_failure("PMIx_Commit", commit.value_or(PMIX_ERR_TIMEOUT));
        }
        const bool several_hosts = topology_.local_size < topology_.size;
        if (several_hosts && !all_tasks_run_ && std::getenv("SLURM_STEP_ID") != nullptr)
            let_slurm_settle(before_fence);
        const auto start = Clock::now();
        Done met = fence(deadline, given_up);
        log_time("exchanging addresses with all ranks", start);
        return met;
    }

    [[nodiscard]] Outcome<std::vector<std::byte>> fetch(
        const std::string& key, int rank, Deadline deadline,
        const std::function<bool()>& given_up) override {
        const auto reply = std::make_shared<GetReply>(
            GetQuestion{process_of(self_, static_cast<pmix_rank_t>(rank)), key_of(key)});
        const GetQuestion& question = reply->question();
        void* ticket = GetReply::ticket(reply);
        // PMIX_IMMEDIATE is not used: with it OpenPMIx 4.2.2 looks only in this process, which has
        // the values only if it maps the server's files. The deadline limits the wait.
        auto status =
            PMIx_Get_nb(&question.owner, question.key.c_str(), nullptr, 0, value_came, ticket);
        if (status == PMIX_SUCCESS) {
            status = reply->wait(deadline, given_up);
        } else {
            GetReply::discard(ticket);
        }
        if (status != PMIX_SUCCESS) {
            return pmix_failure(
                "asking for the address of rank " + std::to_string(rank) + " (PMIx_Get)", status);
        }
        return reply->take();
    }

    void abort(int code, const std::string& message) override {
        (void)run_within(Deadline::in(longest_pmix_abort),
                         [code, message] { PMIx_Abort(code, message.c_str(), nullptr, 0); });
    }

  private:
    [[nodiscard]] std::string key_of(const std::string& key) const {
        return key + "." + std::to_string(use_);
    }

    // Returns when every rank has called it.
    [[nodiscard]] Done fence(Deadline deadline, const std::function<bool()>& given_up) const {
        const auto reply = std::make_shared<FenceReply>(FenceQuestion());
        void* ticket = FenceReply::ticket(reply);
        auto status =
            PMIx_Fence_nb(nullptr, 0, &reply->question().with_data, 1, fence_done, ticket);
        if (status == PMIX_OPERATION_SUCCEEDED || status != PMIX_SUCCESS) {
            FenceReply::discard(ticket);
            if (status == PMIX_OPERATION_SUCCEEDED) return {};
            return pmix_failure("PMIx_Fence", status);
        }
        status = reply->wait(deadline, given_up);
        if (status != PMIX_SUCCESS) {
            return pmix_failure("rank " + std::to_string(topology_.rank) + ": waiting for all " +
                                    std::to_string(topology_.size) +
                                    " ranks of the step (PMIx_Fence)",
                                status);
        }
        return {};
    }

    pmix_proc_t self_;
    Topology topology_;
    unsigned use_;
    bool all_tasks_run_;
};

}  // namespace

Outcome<std::unique_ptr<Bootstrap>> connect_pmix(Deadline deadline, bool all_tasks_run) {
    static std::atomic<unsigned> uses{0};
    const auto session = TRY(PmixSession::open(deadline));
    return std::make_unique<PmixBootstrap>(*session, uses++, all_tasks_run);
}

}  // namespace mpi_bridge
