// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mpi_bridge {

// Adds variables to the environment of this process for as long as the object lives. A variable
// that is set already keeps its value.
//
// This is for libraries that can be told something in no other way, in a process whose threads may
// be calling getenv() at any time. setenv() may move the list of variables under such a thread, and
// unsetenv() shifts its entries. Here the list is copied, and one store puts the copy in its place;
// later one store puts the old list back. Neither list is ever changed or freed, so a thread that
// is reading either of them is not disturbed. A thread that calls setenv() meanwhile breaks the
// rules of the C library in any case; if one has replaced the list, its list stays.
//
// Only one overlay may exist at a time.
class EnvironmentOverlay {
  public:
    explicit EnvironmentOverlay(const std::vector<std::pair<std::string, std::string>>& variables);
    EnvironmentOverlay(const EnvironmentOverlay&) = delete;
    EnvironmentOverlay& operator=(const EnvironmentOverlay&) = delete;
    ~EnvironmentOverlay();

  private:
    char** before_ = nullptr;
    char** during_ = nullptr;  // nullptr: nothing was added
};

}  // namespace mpi_bridge
