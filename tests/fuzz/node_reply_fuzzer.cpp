// SPDX-License-Identifier: GPL-2.0-or-later
// batchai-node is a process of the user's, who may put any bytes into its reply to the plugin.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "node/reply.hpp"
#include "plan/plan.hpp"
#include "spank/protocol.h"
#include "spank/reply.hpp"
#include "tests/fuzz/promise.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using batchai::fuzz::promise;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const auto reply = batchai::spank::parse_reply(bytes);
    if (!reply) return 0;
    std::vector<batchai::plan::Variable> environment;
    std::vector<std::string> unset;
    for (const std::string& entry : reply->environment) {
        const std::size_t equals = entry.find('=');
        promise(!entry.empty() && equals != 0 && entry.find('\0') == std::string::npos);
        if (equals == std::string::npos) {
            unset.push_back(entry);
        } else {
            environment.push_back({entry.substr(0, equals), entry.substr(equals + 1)});
        }
    }
    if (!reply->ok) return 0;
    // What batchai-node would write for the same content is read as the same.
    const auto again =
        batchai::spank::parse_reply(batchai::node::success_reply({.environment = environment,
                                                                  .unset = unset,
                                                                  .working_directory = reply->text,
                                                                  .one_id = reply->one_id}));
    promise(again && again->ok && again->text == reply->text && again->one_id == reply->one_id &&
            again->environment.size() == reply->environment.size());
    return 0;
}
