// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/file.hpp"
#include "visit/stacks/torch_state.hpp"

// Asks processes for their collectives of torch.distributed, as
// mpi_bridge/python/mpi_bridge/hook/batchai_torch_calls.py says.
namespace batchai::node {

// The name of the thread that answers, which runs none of the program's code.
inline constexpr std::string_view torch_hook_name = "batchai-torch";

class TorchQuestion {
  public:
    // Asks the processes that can be asked, and does not wait for them. The caller ignores SIGPIPE,
    // because a process may end at any time.
    explicit TorchQuestion(const std::vector<pid_t>& processes);

    // Returns what they have answered by then. Those that have no process group are left out.
    [[nodiscard]] std::map<pid_t, visit::TorchState> answers(
        std::chrono::steady_clock::time_point deadline);

  private:
    struct Asked {
        base::FileDescriptor file;
        base::FileDescriptor pipe;
        std::size_t head = 0;  // bytes before the answer
        std::string number;    // of the question; empty: not asked yet
    };
    static std::optional<Asked> find(pid_t process);
    // Does what can be done without a wait. Returns nothing before there is an answer.
    static std::optional<visit::TorchState> go_on(Asked& asked);

    std::map<pid_t, Asked> asked_;
    std::map<pid_t, visit::TorchState> told_;
};

}  // namespace batchai::node
