// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"

// Processes that this one starts. base/process.hpp has run(), for a program that is waited for.
namespace batchai::base {

using Arguments = std::vector<std::string>;
// "NAME=value" entries.
using Environment = std::vector<std::string>;

// Both ends are closed on exec.
struct Pipe {
    FileDescriptor read_end;
    FileDescriptor write_end;
};
[[nodiscard]] Result<Pipe> make_pipe();

// What comes until the last writer has closed its end.
[[nodiscard]] std::string read_to_end(int descriptor);

// What a program gets of our signals.
enum class Signals {
    inherited,  // what is blocked or ignored here is so there
    unblocked,  // none is blocked; what is ignored here is ignored there
    unblocked_all_default,
};

// A descriptor of ours that is another number in the program. A negative one of ours is /dev/null.
struct Handed {
    int ours;
    int its;
};

struct Program {
    Arguments arguments;                     // the first is found on PATH; no shell is in between
    std::optional<Environment> environment;  // nothing: ours
    // Other descriptors are as they are here: those that are closed on exec are closed.
    std::vector<Handed> descriptors;
    bool closes_all_others = false;  // from 3 on, also those that are not closed on exec
    bool own_group = false;          // the terminal's Ctrl-C does not reach it
    bool ends_with_us = false;       // is killed when this thread ends
    Signals signals = Signals::unblocked;
    std::string missing_hint = "is it installed and on PATH?";
};

// A child process, which is killed, with its group if it has one of its own, and waited for when
// this object goes. Move-only.
class Child {
  public:
    // Returns once the program runs; the error says why it cannot.
    [[nodiscard]] static Result<Child> start(const Program& program);
    // A copy of this process, which has to have one thread. It does `work` and exits with what that
    // returns, without destructors of what is on the stack.
    [[nodiscard]] static Result<Child> fork(const std::function<int()>& work,
                                            bool ends_with_us = false);

    Child(Child&& other) noexcept
        : process_(std::exchange(other.process_, -1)), group_(other.group_) {}
    Child& operator=(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { end(); }

    // -1 once it has been waited for.
    [[nodiscard]] pid_t process() const { return process_; }
    // How it ended, as waitpid(2) says it, if it has by then. Only once: then there is no child.
    [[nodiscard]] std::optional<int> ended();
    [[nodiscard]] std::optional<int> ended_by(std::chrono::steady_clock::time_point deadline);
    [[nodiscard]] int wait();
    // To the process alone; nothing happens when it has been waited for.
    void signal(int number) const;
    // Leaves it to itself. Somebody else waits for it, or nobody.
    pid_t release() { return std::exchange(process_, -1); }

  private:
    explicit Child(pid_t process, bool group = false) : process_(process), group_(group) {}
    void end();

    pid_t process_;
    bool group_;
};

// Does `work` in a copy of this process that is nobody's child, in a session of its own, so that it
// outlives whoever started it. This process has to have one thread.
[[nodiscard]] Result<void> fork_detached(const std::function<int()>& work);

// Puts the program in the place of this process. Returns only when that fails.
[[nodiscard]] Error become(const Program& program);

// What waitpid(2) reported, as a shell says it.
[[nodiscard]] int shell_exit_code(int wait_status);

}  // namespace batchai::base
