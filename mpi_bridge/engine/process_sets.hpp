// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/process_set_engine.hpp"

namespace mpi_bridge {

// The process sets of the job and the engines that serve those that this rank is in; and what all
// engines share: the first failure, and the end.
//
// Sets are added and removed by the world's negotiation thread, on all ranks in the same order, so
// that their ids are the same everywhere. Any thread may call any function.
class ProcessSets final : public EngineHost {
  public:
    static constexpr int most = 1 << Channel::group_bits;

    explicit ProcessSets(EngineParts parts);
    ~ProcessSets() override;  // stop() and ended() come first

    // Where the operation belongs, once it has been checked.
    [[nodiscard]] Outcome<ProcessSetEngine*> serving(const mpib_operation& operation);
    struct Found {
        ProcessSetEngine* engine;
        Handle handle;
    };
    [[nodiscard]] std::optional<Found> find(mpib_handle handle);

    // A change that all ranks ask for, one at a time; the id of the set.
    [[nodiscard]] Outcome<int> change(const Descriptor& change);

    [[nodiscard]] std::optional<int> own_index(int id) const;
    [[nodiscard]] std::optional<std::vector<int>> ranks(int id) const;
    [[nodiscard]] std::vector<int> ids() const;

    // Lets every engine end what runs, and fails the rest.
    void stop(const Failure& failure);
    // True when all threads have ended.
    [[nodiscard]] bool ended(Deadline deadline);

    [[nodiscard]] const EngineParts& parts() const override { return parts_; }
    void fail_all(const Failure& failure) override;
    void note_failure(const Failure& failure);
    [[nodiscard]] bool only_one() const override { return engines_made_ == 1; }
    [[nodiscard]] Outcome<int> change_process_sets(const Descriptor& change) override;

  private:
    struct Set {
        std::vector<int> ranks;  // empty: the id is not in use
        int own_index = -1;
        ProcessSetEngine* engine = nullptr;
    };

    [[nodiscard]] Outcome<int> add(const Descriptor& change);
    [[nodiscard]] Outcome<int> remove(int id);
    [[nodiscard]] Group group_of(const std::vector<int>& ranks) const;
    [[nodiscard]] std::vector<ProcessSetEngine*> all();

    static constexpr std::size_t most_engines = std::size_t{1} << Handle::set_bits;

    const EngineParts parts_;
    std::mutex changing_;  // one change at a time, until it is done
    mutable std::mutex mutex_;
    std::optional<Failure> failure_;
    bool failed_ = false;
    std::array<Set, most> sets_;
    int latest_id_ = MPIB_WORLD;
    // By the number in handles, and by the id of the set; read without the lock. Engines are kept
    // when their set is removed, because handles name them.
    std::vector<std::atomic<ProcessSetEngine*>> by_number_;
    std::array<std::atomic<ProcessSetEngine*>, most> serving_{};
    std::atomic<std::size_t> engines_made_{0};
    std::vector<std::unique_ptr<ProcessSetEngine>> engines_;
};

}  // namespace mpi_bridge
