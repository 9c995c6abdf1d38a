// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/stacks/native/libdw.hpp"
#include "node/stacks/native/stopped_thread.hpp"
#include "visit/stacks/answer.hpp"

namespace batchai::node {

// Walks the stacks of one process by libdw, from copies, so that nobody is stopped while files are
// read. The names are those of the program's and the libraries' own files, which may be in a
// container. Nothing else is loaded, in particular no separate debug information.
class StackWalker {
  public:
    [[nodiscard]] static base::Result<StackWalker> open(const libdw::Functions& functions,
                                                        pid_t process);
    ~StackWalker();
    StackWalker(StackWalker&& other) noexcept;
    StackWalker(const StackWalker&) = delete;
    StackWalker& operator=(const StackWalker&) = delete;
    StackWalker& operator=(StackWalker&&) = delete;

    // Returns the frames of a thread of the process, the innermost first.
    [[nodiscard]] base::Result<std::vector<visit::StackFrame>> frames_of(pid_t thread,
                                                                         const ThreadCopy& copy);

  private:
    // libdw holds its address.
    struct Process {
        pid_t id = 0;
        base::FileDescriptor root;
        std::string program;                 // its path there
        const ThreadCopy* thread = nullptr;  // that is walked
        const libdw::Functions* functions = nullptr;
        libdw::Session* session = nullptr;
    };
    struct Callbacks;

    StackWalker(std::unique_ptr<Process> process, libdw::Session* session)
        : process_(std::move(process)), session_(session) {}
    [[nodiscard]] visit::StackFrame frame_at(libdw::Word address) const;

    std::unique_ptr<Process> process_;
    libdw::Session* session_;
};

}  // namespace batchai::node
