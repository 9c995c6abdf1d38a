// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"

namespace batchai::base {

// Blocks signals as long as the object exists, so that they can be handled in one place and no
// handler interrupts a system call. A signal that has arrived and was not taken with next() has its
// usual effect when the object is destroyed. SIGHUP, SIGINT and SIGQUIT do not come if they are
// ignored, as by nohup(1) or in the background of a script.
class HeldSignals {
  public:
    explicit HeldSignals(std::initializer_list<int> numbers);
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;
    ~HeldSignals();

    // Returns a descriptor that poll(2) reports as readable when a signal has arrived.
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    // Takes the next signal that has arrived, if there is one.
    [[nodiscard]] std::optional<int> next() const;
    // Takes the next signal. Waits for it no longer than `time`.
    [[nodiscard]] std::optional<int> next_within(std::chrono::milliseconds time) const;

  private:
    sigset_t before_{};
    FileDescriptor descriptor_;
};

// Starts other processes. run() in base/process.hpp starts a program and waits for its end.

using Arguments = std::vector<std::string>;
// "NAME=value" entries.
using Environment = std::vector<std::string>;

// Both ends are closed on exec, so that no other program keeps them open.
struct Pipe {
    FileDescriptor read_end;
    FileDescriptor write_end;
};
[[nodiscard]] Result<Pipe> make_pipe();

// Appends what can be read now, and waits if there is nothing yet. Once `into` has `limit` bytes,
// what comes is read and dropped. Returns false at the end of the stream.
[[nodiscard]] bool drain(int descriptor, std::string& into, std::size_t limit = SIZE_MAX);

// Reads until the last writer has closed its end.
[[nodiscard]] std::string read_to_end(int descriptor);

// The signal settings with which a program starts.
// SIGXFSZ has its usual effect in each case.
enum class Signals {
    inherited,              // it blocks and ignores the signals that we block and ignore
    unblocked,              // it blocks none, and ignores those that we ignore
    unblocked_all_default,  // it blocks and ignores none
};

// A descriptor that the program gets, perhaps under another number.
struct Handed {
    int ours;  // a negative number stands for /dev/null
    int its;
};

struct Program {
    Arguments arguments;                     // the first is found on PATH; there is no shell
    std::optional<Environment> environment;  // without it the program gets ours
    // The program also gets all other descriptors that are not closed on exec.
    std::vector<Handed> descriptors;
    bool closes_all_others = false;  // except 0, 1 and 2
    bool own_group = false;          // a group of its own, which Ctrl-C does not reach
    bool ends_with_us = false;       // it is killed when this thread ends
    Signals signals = Signals::unblocked;
    std::string missing_hint = "is it installed and on PATH?";
};

// A child process. When the object is destroyed the process is killed, together with its group if
// it has its own, and waited for. Move-only.
class Child {
  public:
    // Returns once the program runs. If it cannot run, the error says why.
    [[nodiscard]] static Result<Child> start(const Program& program);
    // Makes a copy of this process, which must not have several threads. The copy does `work` and
    // exits with the code that `work` returns, without running destructors.
    [[nodiscard]] static Result<Child> fork(const std::function<int()>& work,
                                            bool ends_with_us = false);

    Child(Child&& other) noexcept
        : process_(std::exchange(other.process_, -1)), group_(other.group_) {}
    Child& operator=(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { end(); }

    // The process id, or -1 once the process has been waited for.
    [[nodiscard]] pid_t process() const { return process_; }
    // Returns the wait status if the process has ended, as waitpid(2) does. After that there is no
    // child, and it returns nothing.
    [[nodiscard]] std::optional<int> ended();
    [[nodiscard]] std::optional<int> ended_by(std::chrono::steady_clock::time_point deadline);
    [[nodiscard]] int wait();
    // Signals the process, but not its group. Does nothing once it has been waited for.
    void signal(int number) const;
    // Gives up the process, which then goes on by itself.
    pid_t release() { return std::exchange(process_, -1); }

  private:
    explicit Child(pid_t process, bool group = false) : process_(process), group_(group) {}
    void end();

    pid_t process_;
    bool group_;
};

// Does `work` in a copy of this process that is a child of init and has a session of its own, so
// that it outlives the process that has started it. This process must not have several threads.
[[nodiscard]] Result<void> fork_detached(const std::function<int()>& work);

// Replaces this process by the program. Returns only if that fails.
[[nodiscard]] Error become(const Program& program);

// Converts a wait status to an exit code as a shell does: 128 + signal for a process that was
// killed.
[[nodiscard]] int shell_exit_code(int wait_status);
// The other way: the signal that the exit code tells of, also if a shell in between has passed it
// on. Larger codes, such as the 255 of many programs of Slurm, tell of none.
[[nodiscard]] std::optional<int> signal_in(int exit_code);

struct RunOptions {
    std::optional<Environment> environment;  // without it the program gets ours
    std::string standard_input;              // empty: /dev/null; else a file in memory
    bool show_messages = false;  // its standard error goes to ours, for a user who watches
    std::chrono::milliseconds deadline{60000};
    std::size_t output_limit = 64UL << 20U;  // bytes of each stream; more is an error
    bool keeps_end = false;                  // instead of that error, keeps the last bytes
    bool own_group = false;                  // as in Program
    bool ends_with_us = false;
    Signals signals = Signals::inherited;
    std::string missing_hint = Program().missing_hint;
    // Called while the program runs. If it fails, the program is ended and its error is the result.
    std::function<Result<void>()> tick;
    std::chrono::milliseconds tick_period{250};
};

struct Completed {
    int exit_code = 0;  // as a shell reports it: 128 + signal if killed
    std::string standard_output;
    std::string standard_error;
};

// Runs argv[0], which is found on PATH, without a shell, and waits until it ends. It is an error if
// the program cannot be started, or if it does not end before the deadline and is killed. A
// non-zero exit code is not an error.
[[nodiscard]] Result<Completed> run(const Arguments& arguments, const RunOptions& options = {});

// Called after each run() with what was run and how it ended, from the thread that has run it.
using Trace = std::function<void(const Arguments& arguments, const Result<Completed>& completed,
                                 std::chrono::milliseconds time)>;
// Sets the function for the rest of this process, for people who want to see what a command does.
// Must be called while there is one thread.
void trace_runs(Trace trace);

// Returns the value of a variable of our environment; nothing if it is empty or not set.
[[nodiscard]] std::optional<std::string> variable(const char* name);

// Returns our environment without the variables whose entries start with one of `prefixes`.
[[nodiscard]] Environment environment_without(const std::vector<std::string>& prefixes);

}  // namespace batchai::base
