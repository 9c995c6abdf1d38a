// SPDX-License-Identifier: Apache-2.0
#include "channel.hpp"

#include <fmt/format.h>

namespace schedules {

std::string Channel::complete_if_all_called() {
    for (const auto& call : calls_)
        if (!call) return {};
    Answer answer;
    answer.words = calls_.front()->words;
    for (const auto& call : calls_) {
        if (call->contents != calls_.front()->contents)
            return fmt::format("members are in different calls: \"{}\" and \"{}\"",
                               calls_.front()->contents, call->contents);
        if (call->words.size() != answer.words.size())
            return fmt::format("{} and {} words in \"{}\"", call->words.size(), answer.words.size(),
                               call->contents);
        for (std::size_t at = 0; at < answer.words.size(); ++at) {
            answer.words[at].mask |= call->words[at].mask;
            answer.words[at].number = std::max(answer.words[at].number, call->words[at].number);
        }
        answer.bytes.push_back(call->bytes);
        answer.whole = answer.whole && call->whole;
    }
    for (std::size_t at = 0; at < calls_.size(); ++at) {
        calls_[at].reset();
        answers_[at] = answer;
    }
    return {};
}

}  // namespace schedules
