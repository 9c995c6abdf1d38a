// SPDX-License-Identifier: Apache-2.0
#include "api/guard.hpp"

namespace mpi_bridge {
namespace {

std::string& text_of_thread() {
    thread_local std::string text;
    return text;
}

}  // namespace

mpib_status remember(const Failure& failure) noexcept {
    try {
        text_of_thread() = failure.text;
    } catch (...) {
        text_of_thread().clear();  // out of memory; the status must do
    }
    return failure.status;
}

const char* remembered_text() noexcept {
    if (in_forked_child()) {
        return "mpi_bridge does not work in a child process made by fork() after mpib_init() was "
               "called in the parent; start the process by exec (Python: the start method "
               "\"spawn\"), or leave all communication to the parent";
    }
    return text_of_thread().c_str();
}

tl::unexpected<Failure> not_initialized(std::string_view call) {
    return fail(MPIB_ERROR_NOT_INITIALIZED, std::string(call) + ": call mpib_init first");
}

}  // namespace mpi_bridge
