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
        text_of_thread().clear();  // out of memory; the status still tells
    }
    return failure.status;
}

const char* remembered_text() noexcept {
    return text_of_thread().c_str();
}

}  // namespace mpi_bridge
