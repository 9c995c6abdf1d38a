// SPDX-License-Identifier: Apache-2.0
#include "core/visible_state.hpp"

#include <new>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace mpi_bridge {

namespace {

FileDescriptor make_file() {
    FileDescriptor file(memfd_create(std::string(VisibleLayout::file_name).c_str(), MFD_CLOEXEC));
    if (file && ftruncate(file.number(), sizeof(VisibleLayout)) != 0) file = FileDescriptor();
    return file;
}

VisibleLayout* make_memory(const FileDescriptor& file) {
    const int flags = file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void* const place = mmap(nullptr, sizeof(VisibleLayout), PROT_READ | PROT_WRITE, flags,
                             file ? file.number() : -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    return new (place) VisibleLayout;
}

}  // namespace

VisibleState::VisibleState()
    : file_(make_file()),
      memory_(make_memory(file_)),
      waits_(memory_->waits),
      operations_(memory_->operations) {
    if (file_) private_in_children_.emplace(memory_, sizeof(VisibleLayout), file_.number());
    memory_->process.store(getpid(), std::memory_order_relaxed);
}

VisibleState::~VisibleState() {
    private_in_children_.reset();
    munmap(memory_, sizeof(VisibleLayout));
}

}  // namespace mpi_bridge
