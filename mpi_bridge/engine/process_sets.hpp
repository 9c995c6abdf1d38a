// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "engine/process_set_engine.hpp"

namespace mpi_bridge {

// The process sets of the job, and the engines of those that this rank belongs to; all engines end
// together.
//
// The world's negotiation thread adds and removes sets, on all ranks in the same order, so that
// their ids are the same everywhere. Any thread may call any function.
class ProcessSets final : public EngineHost {
  public:
    static constexpr int most = 1 << Channel::group_bits;
    // Ids from here on are for sets that only their members know; see open().
    static constexpr int first_private = most / 2;

    explicit ProcessSets(EngineParts parts);
    ~ProcessSets() override;  // shutdown() and ended() must come first

    // Checks the operation and returns the engine that serves it.
    [[nodiscard]] Outcome<ProcessSetEngine*> serving(const mpib_operation& operation);
    struct Found {
        ProcessSetEngine* engine;
        Handle handle;
    };
    [[nodiscard]] std::optional<Found> find(mpib_handle handle);

    // Makes a change that all ranks ask for, one at a time. Returns the id of the set.
    [[nodiscard]] Outcome<int> change(const Descriptor& change);

    // Makes, or ends, a set that only its members know. All of them must open it, and have agreed
    // on an id that is free on each of them. Neither waits for the other members. A closed set uses
    // its id, and runs on without work, until all members have closed it.
    [[nodiscard]] Done open(const std::vector<int>& ranks, int id);
    [[nodiscard]] Done close(int id);
    [[nodiscard]] bool is_free(int id);
    // Another member of such a set has closed it.
    void member_closed(int id, int rank);

    [[nodiscard]] std::optional<int> own_index(int id) const;
    [[nodiscard]] std::optional<std::vector<int>> ranks(int id) const;
    [[nodiscard]] std::vector<int> ids() const;

    // Starts the engines of all sets that this rank is a member of; see Engine::start().
    void start();
    // Lets every engine finish what runs, and fails everything else.
    void shutdown(const Failure& cause);
    // Returns true if all threads have ended.
    [[nodiscard]] bool ended(Deadline deadline);

    // Returns null if there is no engine with this number (Handle::set).
    [[nodiscard]] ProcessSetEngine* numbered(std::uint32_t number) {
        return number < by_number_.size() ? by_number_[number].load() : nullptr;
    }

    [[nodiscard]] const EngineParts& parts() const override { return parts_; }
    [[nodiscard]] bool only_one() const override { return engines_made_ == 1; }
    [[nodiscard]] DeviceExecutor& devices() override { return devices_; }
    [[nodiscard]] Outcome<int> change_process_sets(const Descriptor& change) override;

  private:
    struct Set {
        std::vector<int> ranks;  // empty: the id is not in use
        int own_index = -1;
        ProcessSetEngine* engine = nullptr;
    };

    [[nodiscard]] Outcome<int> add(const Descriptor& change);
    [[nodiscard]] Outcome<int> remove(int id);
    [[nodiscard]] Done check(const std::vector<int>& ranks) const;
    // Needs the lock. Returns the engine if this rank is a member.
    [[nodiscard]] Outcome<ProcessSetEngine*> make(const std::vector<int>& ranks, int id);
    [[nodiscard]] Group group_of(const std::vector<int>& ranks) const;
    [[nodiscard]] std::vector<ProcessSetEngine*> all();
    // Starts a new engine, or forgets its set again.
    [[nodiscard]] Done start(ProcessSetEngine& engine, int id);
    // Frees the memory and the threads of sets that all members have closed by now.
    void let_go_of_closed();

    static constexpr std::size_t most_engines = std::size_t{1} << Handle::set_bits;

    const EngineParts parts_;
    std::mutex changing_;  // one change at a time, until it is done
    mutable std::mutex mutex_;
    std::optional<Failure> shutdown_;
    std::array<Set, most> sets_;
    int latest_id_ = MPIB_WORLD;
    std::vector<ProcessSetEngine*> closed_;  // those that have not let go yet
    // By the id of a set that only its members know, from open() until it has let go.
    std::map<int, ProcessSetEngine*> private_;
    std::map<int, std::set<int>> closed_early_;  // members that closed before this rank opened
    // Engines by the number in handles, and by the id of the set; both are read without the lock.
    // An engine is kept when its set is removed, because handles refer to it, but not its memory
    // and its threads.
    std::vector<std::atomic<ProcessSetEngine*>> by_number_;
    std::array<std::atomic<ProcessSetEngine*>, most> serving_{};
    std::atomic<std::size_t> engines_made_{0};
    DeviceExecutor devices_;
    std::vector<std::unique_ptr<ProcessSetEngine>> engines_;
    // Declared last, so that it is called only while everything above exists.
    std::optional<FailureToken::Watch> watch_;
};

}  // namespace mpi_bridge
