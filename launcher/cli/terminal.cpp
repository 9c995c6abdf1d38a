// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/terminal.hpp"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::cli {

void say(std::string_view line) {
    fmt::print(stderr, "batchai: {}\n", line);
}

void warn(std::string_view line) {
    fmt::print(stderr, "batchai: warning: {}\n", line);
}

base::Result<bool> confirm(bool yes) {
    if (yes) return true;
    if (isatty(STDIN_FILENO) == 0) {
        return base::fail("cannot ask for confirmation: standard input is not a terminal", "",
                          "add --yes (-y) to skip the question", base::ExitCode::usage);
    }
    std::string line;
    while (true) {
        fmt::print(stderr, "Are you sure you want to perform this operation? (y/n): ");
        if (!std::getline(std::cin, line)) return false;
        const auto answer = base::lower(base::trim(line));
        if (answer == "y" || answer == "yes") return true;
        if (answer == "n" || answer == "no") return false;
    }
}

namespace {

volatile std::sig_atomic_t interrupted = 0;
struct sigaction before;  // NOLINT: restored by the destructor of the only instance

void note(int /*number*/) {
    interrupted = 1;
}

}  // namespace

Interruption::Interruption() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = note;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before);
}

Interruption::~Interruption() {
    sigaction(SIGINT, &before, nullptr);
}

bool Interruption::requested() {
    return interrupted != 0;
}

void Interruption::sleep(std::chrono::milliseconds time) {
    if (interrupted != 0) return;
    timespec left{time.count() / 1000, (time.count() % 1000) * 1000000};
    nanosleep(&left, nullptr);
}

}  // namespace batchai::cli
