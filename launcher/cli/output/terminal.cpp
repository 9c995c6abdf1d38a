// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/terminal.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::cli {

bool called_as_az() {
    return std::string_view(program_invocation_short_name) == "az";
}

namespace {

bool only_errors = false;
bool output_was_lost = false;

}  // namespace

void show_only_errors() {
    only_errors = true;
}

bool only_errors_are_shown() {
    return only_errors;
}

void say(std::string_view line) {
    if (only_errors) return;
    base::print_error("batchai: {}\n", base::printable_lines(line));
}

void warn(std::string_view line) {
    if (only_errors) return;
    base::print_error("batchai: warning: {}\n", base::printable_lines(line));
}

void say_error(std::string_view text) {
    base::print_error("batchai: error: {}\n", base::printable_lines(text));
}

bool print_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto count = write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) {
            if (Interruption::requested()) return false;
            continue;
        }
        if (count < 0) {
            output_was_lost = true;
            say(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
            return false;
        }
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

bool output_is_lost() {
    return output_was_lost;
}

base::Result<bool> confirm(bool yes) {
    if (yes) return true;
    if (isatty(STDIN_FILENO) == 0) {
        return base::fail("cannot ask for confirmation: standard input is not a terminal", "",
                          "add --yes (-y) to skip the question", base::ExitCode::usage);
    }
    std::string line;
    while (true) {
        base::print_error("Are you sure you want to perform this operation? (y/n): ");
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

void Interruption::forget() {
    interrupted = 0;
}

void Interruption::sleep(std::chrono::milliseconds time) {
    poll({}, time);
}

int Interruption::poll(std::span<pollfd> events, std::optional<std::chrono::milliseconds> time) {
    // The signal is held back between the look at the flag and the wait, so that none is missed.
    sigset_t interrupt;
    sigset_t mask;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &mask);
    int ready = -1;
    errno = EINTR;
    if (interrupted == 0) {
        timespec left{};
        if (time) left = {time->count() / 1000, (time->count() % 1000) * 1000000};
        ready = ppoll(events.data(), events.size(), time ? &left : nullptr, &mask);
    }
    const int error = errno;
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    errno = error;
    return ready;
}

}  // namespace batchai::cli
