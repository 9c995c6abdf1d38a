// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::base {

namespace {

using Clock = std::chrono::steady_clock;

// The pipe's buffer takes the whole input, so that writing it cannot block.
constexpr std::size_t longest_input = 65536;

// Reads what is there. Returns false at the end of the stream.
bool drain(int descriptor, std::string& into) {
    std::array<char, 16384> chunk{};
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    into.append(chunk.data(), static_cast<std::size_t>(count));
    return count > 0;
}

// A running program and what it has printed.
class Running {
  public:
    Running(const Arguments& arguments, const RunOptions& options, Child child,
            FileDescriptor output, FileDescriptor error)
        : program_(arguments.front()),
          options_(options),
          child_(std::move(child)),
          streams_{std::move(output), std::move(error)},
          end_(Clock::now() + options.deadline),
          next_tick_(Clock::now() + options.tick_period) {}

    Result<Completed> complete() && {
        while (streams_[0].valid() || streams_[1].valid()) {
            TRY(look_at_time());
            TRY(read_on());
        }
        // A program may close its outputs and keep running, so this wait ends too.
        std::optional<int> status;
        while (!(status = child_.ended_by(next_look())))
            TRY(look_at_time());
        return Completed{.exit_code = shell_exit_code(*status),
                         .standard_output = std::move(printed_[0]),
                         .standard_error = std::move(printed_[1])};
    }

  private:
    [[nodiscard]] Clock::time_point next_look() const {
        return options_.tick ? std::min(next_tick_, end_) : end_;
    }

    Result<void> look_at_time() {
        if (Clock::now() >= end_)
            return fail(
                fmt::format("did not end within {} ms and was killed", options_.deadline.count()),
                program_, {}, ExitCode::timed_out);
        if (!options_.tick || Clock::now() < next_tick_) return {};
        next_tick_ = Clock::now() + options_.tick_period;
        return options_.tick();
    }

    Result<void> read_on() {
        std::array<pollfd, 2> waiting{
            {{streams_[0].get(), POLLIN, 0}, {streams_[1].get(), POLLIN, 0}}};
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(next_look() - Clock::now()).count();
        const int ready =
            poll(waiting.data(), waiting.size(), static_cast<int>(std::max<long>(left, 0)));
        if (ready < 0 && errno != EINTR) return fail(std::strerror(errno), program_);
        for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
            std::string& text = printed_[i];
            if (waiting[i].revents != 0 && !drain(waiting[i].fd, text)) streams_[i].reset(-1);
            if (text.size() <= options_.output_limit) continue;
            if (!options_.keeps_end)
                return fail(fmt::format("printed more than {} bytes", options_.output_limit),
                            program_);
            text.erase(0, text.size() - options_.output_limit);
        }
        return {};
    }

    const std::string& program_;
    const RunOptions& options_;
    Child child_;
    std::array<FileDescriptor, 2> streams_;
    std::array<std::string, 2> printed_;
    Clock::time_point end_;
    Clock::time_point next_tick_;
};

}  // namespace

Environment environment_without(const std::vector<std::string>& prefixes) {
    Environment kept;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto matches = [&](const std::string& prefix) { return text.starts_with(prefix); };
        if (std::none_of(prefixes.begin(), prefixes.end(), matches)) kept.emplace_back(text);
    }
    return kept;
}

Result<Completed> run(const Arguments& arguments, const RunOptions& options) {
    if (options.standard_input.size() > longest_input)
        return fail("standard input above 64 KiB", arguments.front());
    Pipe input = TRY(make_pipe());
    Pipe output = TRY(make_pipe());
    Pipe error = TRY(make_pipe());
    if (write(input.write_end.get(), options.standard_input.data(), options.standard_input.size()) <
        0)
        return fail(std::strerror(errno), "pipe");
    Program program{.arguments = arguments,
                    .environment = options.environment,
                    .descriptors = {{input.read_end.get(), STDIN_FILENO},
                                    {output.write_end.get(), STDOUT_FILENO}},
                    .own_group = options.own_group,
                    .ends_with_us = options.ends_with_us,
                    .signals = options.signals,
                    .missing_hint = options.missing_hint};
    if (!options.show_messages)
        program.descriptors.push_back({error.write_end.get(), STDERR_FILENO});
    Child child = TRY(Child::start(program));
    input = {};
    output.write_end.reset(-1);
    error.write_end.reset(-1);
    return Running(arguments, options, std::move(child), std::move(output.read_end),
                   std::move(error.read_end))
        .complete();
}

}  // namespace batchai::base
