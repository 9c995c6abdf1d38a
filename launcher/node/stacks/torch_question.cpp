// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/torch_question.hpp"

#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/record.hpp"
#include "base/text.hpp"
#include "node/stacks/memory_files.hpp"

namespace batchai::node {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_answer = 1UL << 20U;
constexpr std::chrono::milliseconds between_answers{2};

visit::TorchState silent(std::string why) {
    return {.why = std::move(why), .rank = {}, .groups = {}};
}

// Reads "NUMBER LENGTH", a newline and as many bytes.
std::optional<visit::TorchState> answer_in(std::string_view text, const std::string& number) {
    const std::size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return std::nullopt;
    const auto words = base::split(text.substr(0, newline), ' ');
    text.remove_prefix(newline + 1);
    // What somebody else has asked for is not the answer.
    if (words.size() != 2 || words[0] != number) return std::nullopt;
    const auto length = base::number_in<std::size_t>(words[1]);
    if (!length) return silent("its answer is not understood");
    if (text.size() < *length) {
        if (*length > longest_answer) return silent("its answer is too long");
        return std::nullopt;
    }
    auto state = base::from_record<visit::TorchState>(text.substr(0, *length), visit::torch_schema);
    return state ? std::move(*state) : silent("its answer is not understood");
}

}  // namespace

TorchQuestion::TorchQuestion(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
        if (auto found = find(process)) asked_.emplace(process, std::move(*found));
    }
    for (auto& [process, asked] : asked_)
        static_cast<void>(go_on(asked));
}

std::optional<TorchQuestion::Asked> TorchQuestion::find(pid_t process) {
    for (MemoryFile& file : memory_files(process, torch_hook_name, O_RDWR | O_NONBLOCK)) {
        const auto head = hook_head(file, torch_hook_name, process);
        if (!head || !is_of(*head, file)) continue;
        auto ends = ends_of_pipe(process, head->numbers[1], O_WRONLY | O_NONBLOCK);
        if (ends.empty()) continue;
        return Asked{.file = std::move(file.file),
                     .pipe = std::move(ends.front().file),
                     .head = head->bytes,
                     .number = {}};
    }
    return std::nullopt;
}

std::optional<visit::TorchState> TorchQuestion::go_on(Asked& asked) {
    if (asked.number.empty()) {
        // Another command may be asking the same process.
        if (flock(asked.file.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
        const std::string number = std::to_string(Clock::now().time_since_epoch().count());
        const std::string line = number + '\n';
        // The caller ignores SIGPIPE.
        const ssize_t count = write(asked.pipe.get(), line.data(), line.size());
        if (count < 0 && errno == EPIPE) return silent("it has ended");
        if (count != static_cast<ssize_t>(line.size()))
            return silent("it does not answer earlier questions");
        asked.number = number;
    }
    return answer_in(base::end_of_file(asked.file, asked.head, longest_answer), asked.number);
}

std::map<pid_t, visit::TorchState> TorchQuestion::answers(Clock::time_point deadline) {
    while (!asked_.empty()) {
        for (auto at = asked_.begin(); at != asked_.end();) {
            auto answer = go_on(at->second);
            if (answer) told_.emplace(at->first, std::move(*answer));
            at = answer ? asked_.erase(at) : std::next(at);
        }
        if (asked_.empty() || Clock::now() >= deadline) break;
        std::this_thread::sleep_for(between_answers);
    }
    for (const auto& [process, asked] : asked_)
        told_.emplace(process, silent(asked.number.empty() ? "another command is asking it"
                                                           : "it does not answer"));
    // Others may ask now.
    asked_.clear();
    return std::move(told_);
}

}  // namespace batchai::node
