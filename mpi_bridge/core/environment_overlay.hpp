// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mpi_bridge {

// Variables added to the environment of this process for as long as the object lives; a variable
// that is set already keeps its value.
//
// For libraries that can be told something in no other way, in a process whose threads may be
// calling getenv() at any time. setenv() may move the list of variables under such a thread, and
// unsetenv() shifts its entries. Here the list is copied and the copy put in its place by one
// store, and later the old list in the same way. Neither list is ever changed or freed, so a thread
// that is going through either of them is not disturbed. A thread that calls setenv() itself
// meanwhile breaks the rules of the C library whatever is done here; if one has, its list stays.
//
// One at a time.
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
