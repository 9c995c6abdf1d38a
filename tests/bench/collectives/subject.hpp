// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "collective.hpp"

namespace bench {

// The ranks that measure together, as one of them sees it after it has joined the others. Failures
// are std::runtime_error; the program then ends, and the launcher with it.
class Team {
  public:
    Team() = default;
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    virtual ~Team() = default;  // leaves the other ranks

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;

    // data[i] = the sum of all ranks' data[i], for the benchmark's own agreements.
    virtual void sum(float* data, std::size_t count) = 0;
    virtual void barrier() = 0;
};

// Something that is timed: a collective on vectors of one size, or a transfer that bounds it.
class Work {
  public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() = default;  // frees the buffers

    // Bytes of the vector that is worked on, which may be a little more than was asked for.
    [[nodiscard]] virtual std::size_t bytes() const = 0;

    // Runs once and compares every element of the result with what it must be; throws when one is
    // wrong.
    virtual void check() = 0;

    // Puts values in place that stay as they are however often the work is run.
    virtual void make_ready() = 0;

    virtual void run() = 0;  // this is the call that is timed

    // How many times the work that counts is done by one run().
    [[nodiscard]] virtual int times_in_a_run() const { return 1; }
};

// What a program measures: one of the libraries that are compared, or a limit of the machine.
class Subject : public Team {
  public:
    [[nodiscard]] virtual std::string name() const = 0;  // with its version

    // nullptr where the library has no such collective.
    [[nodiscard]] virtual std::unique_ptr<Work> work(Collective collective, std::size_t bytes) = 0;
};

// Joins the other ranks that the launcher started. Each program links one definition of this; what
// variants there are is said in the text of the error about an unknown one.
[[nodiscard]] std::unique_ptr<Subject> join(const std::string& variant);

}  // namespace bench
