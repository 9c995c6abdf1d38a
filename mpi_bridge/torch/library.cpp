// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace mpi_bridge::torch {

namespace {

Library the_library;

// Never destroyed: threads of a process that ends may come to it.
struct Kept {
    std::shared_mutex in_use;  // shared: by those that need the session
    std::mutex mutex;
    std::int64_t begun = 0;  // the session of the latest mpib_init()
    std::vector<at::Tensor> tensors;
    std::unordered_map<int, std::int64_t> marks;
};

Kept& kept() {
    static auto* const the_kept = new Kept;
    return *the_kept;
}

std::atomic<std::int64_t> the_session{0};

}  // namespace

std::vector<std::string> function_names() {
#define F(name) #name,
    return {MPI_BRIDGE_TORCH_FUNCTIONS(F)};
#undef F
}

void set_library(const std::unordered_map<std::string, std::uintptr_t>& addresses) {
#define F(name) the_library.name = reinterpret_cast<decltype(Library::name)>(addresses.at(#name));
    MPI_BRIDGE_TORCH_FUNCTIONS(F)
#undef F
}

const Library& library() {
    return the_library;
}

void check(mpib_status status) {
    if (status != MPIB_OK) {
        throw Error(status, the_library.last_error());
    }
}

std::int64_t session() {
    return the_session;
}

std::shared_lock<std::shared_mutex> use_of_session(std::int64_t of_session) {
    std::shared_lock lock(kept().in_use);
    if (of_session != the_session) {
        throw Error(MPIB_ERROR_NOT_INITIALIZED, "this operation is from before shutdown()");
    }
    return lock;
}

void session_has_ended() {
    {
        const std::unique_lock unused(kept().in_use);
        ++the_session;
    }
    const std::lock_guard lock(kept().mutex);
    kept().marks.clear();
}

void session_has_begun() {
    std::vector<at::Tensor> released;
    const std::lock_guard lock(kept().mutex);
    kept().begun = the_session;
    std::swap(released, kept().tensors);
}

void keep_until_init(std::vector<at::Tensor> tensors, std::int64_t of_session) {
    const std::lock_guard lock(kept().mutex);
    if (of_session < kept().begun) {
        return;
    }
    std::ranges::move(tensors, std::back_inserter(kept().tensors));
}

void note_mark(int process_set, std::int64_t mark) {
    const std::lock_guard lock(kept().mutex);
    auto& latest = kept().marks[process_set];
    latest = std::max(latest, mark);
}

std::unordered_map<int, std::int64_t> latest_marks() {
    const std::lock_guard lock(kept().mutex);
    return kept().marks;
}

}  // namespace mpi_bridge::torch
