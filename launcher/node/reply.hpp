// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Appends lines with a UTC timestamp to <job directory>/node/<node>.log, from where `batchai run`
// copies them into the execution log. Best effort: a full disk must not fail the job.
class Trace {
  public:
    explicit Trace(const std::string& job_directory);
    void line(std::string_view text) const;

  private:
    std::string path_;
};

// The contents of a successful reply to batchai.so. spank/protocol.h defines the format of replies.
struct SuccessReply {
    const std::vector<plan::Variable>& environment;
    const std::vector<std::string>& unset;
    const std::string& working_directory;
    bool one_id = false;
};
[[nodiscard]] std::string success_reply(const SuccessReply& reply);
[[nodiscard]] std::string failure_reply(const base::Error& error);

// Fails if a name or value cannot be passed on (an empty name, '=' in a name, a zero byte), or if
// all variables together are longer than the protocol allows.
[[nodiscard]] base::Result<void> check_environment(const std::vector<plan::Variable>& environment);

}  // namespace batchai::node
