// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/interruption.hpp"

#include <csignal>
#include <ctime>

namespace batchai::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;
struct sigaction before;  // NOLINT: read back by the destructor of the only instance

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
