// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace mpi_bridge {
namespace {

std::atomic<int> own_rank{-1};

void print(std::string_view level, std::string_view text) {
    std::string line = "mpi_bridge: ";
    if (const int rank = own_rank; rank >= 0) line += "rank " + std::to_string(rank) + ": ";
    line.append(level).append(text).append("\n");
    std::fputs(line.c_str(), stderr);
}

LogLevel level_from_environment() {
    const char* word = std::getenv("MPI_BRIDGE_LOG");
    if (word == nullptr || *word == '\0') return LogLevel::warning;
    const auto level = parse_log_level(word);
    if (!level) {
        print("warning: ", "MPI_BRIDGE_LOG=\"" + std::string(word) +
                               "\" is not one of error, warning, info, debug: warning is taken");
    }
    return level.value_or(LogLevel::warning);
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view word) {
    if (word == "error") return LogLevel::error;
    if (word == "warning") return LogLevel::warning;
    if (word == "info") return LogLevel::info;
    if (word == "debug") return LogLevel::debug;
    return std::nullopt;
}

bool logs(LogLevel level) {
    static const LogLevel last = level_from_environment();
    return level <= last;
}

void log(LogLevel level, std::string_view text) {
    if (!logs(level)) return;
    const bool notable = level <= LogLevel::warning;
    print(!notable ? "" : level == LogLevel::error ? "error: " : "warning: ", text);
}

void log_time(std::string_view what, Clock::time_point since) {
    if (!logs(LogLevel::debug)) return;
    const std::chrono::duration<double, std::milli> took = Clock::now() - since;
    char text[32];
    std::snprintf(text, sizeof text, " took %.1f ms", took.count());
    log(LogLevel::debug, std::string(what) + text);
}

void set_log_rank(int rank) {
    own_rank = rank;
}

}  // namespace mpi_bridge
