// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "work/work.hpp"

namespace mpi_bridge::torch {

/// Keeps the Works of a group until they are complete, also those that the caller has dropped, and
/// knows which one uses a name of the engine. Any thread may call any function.
class Works : public std::enable_shared_from_this<Works> {
  public:
    using Work = c10::intrusive_ptr<EngineWork>;

    void add(const Work& work, std::vector<std::string> names);

    /// The Work that uses the name, or none.
    [[nodiscard]] Work user_of(const std::string& name) const;

    /// All that are not known to be done.
    [[nodiscard]] std::vector<Work> all() const;

    /// Lets go of all but the engine's operations that are in flight.
    void leave_behind();

  private:
    void remove(EngineWork& work);

    // Nothing that may release an operation, and so wait, happens under this lock.
    mutable std::mutex mutex_;
    std::unordered_map<EngineWork*, std::pair<Work, std::vector<std::string>>> works_;
    std::unordered_map<std::string, EngineWork*> by_name_;
    std::size_t most_ = 0;
};

}  // namespace mpi_bridge::torch
