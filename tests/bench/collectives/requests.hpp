// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "collective.hpp"

namespace bench {

// What is to be measured next.
struct Request {
    Collective collective{};
    std::size_t bytes = 0;
    std::chrono::duration<double> budget{};  // to spend on it, about
    bool checked = true;                     // its result is compared before it is timed
};

// Where the requests come from: the command line, or a folder with a named pipe for each rank. The
// pipes let the ranks of several libraries live side by side and take turns: those whose turn it is
// not sleep in the kernel, outside their libraries, so that they take no processor from the others.
class Requests {
  public:
    explicit Requests(std::vector<Request> all) : given_(std::move(all)) {}

    // Opens the pipe of this rank, FOLDER/RANK. Each line is "COLLECTIVE BYTES SECONDS", and then
    // "check" or "time".
    Requests(const std::string& folder, int rank);

    // Waits for the next one; none when there will be no more.
    [[nodiscard]] std::optional<Request> next();

  private:
    std::vector<Request> given_;
    std::size_t taken_ = 0;
    std::ifstream pipe_;
};

}  // namespace bench
