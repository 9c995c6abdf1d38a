// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// The bytes of a reply to batchai.so (spank/protocol.h).
struct SuccessReply {
    const std::vector<plan::Variable>& environment;
    const std::vector<std::string>& unset;
    const std::string& working_directory;
    bool one_id = false;
};
[[nodiscard]] std::string success_reply(const SuccessReply& reply);
[[nodiscard]] std::string failure_reply(const base::Error& error);

// Fails when a name or value cannot be handed on (an empty name, '=' in a name, a zero byte), or
// all of it is longer than the protocol allows.
[[nodiscard]] base::Result<void> check_environment(const std::vector<plan::Variable>& environment);

}  // namespace batchai::node
