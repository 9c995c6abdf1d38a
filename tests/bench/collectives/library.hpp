// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace bench {

// One of the libraries that are compared, as one rank sees it after it has joined the others.
// Failures are std::runtime_error; the program then ends, and the launcher with it.
class Library {
  public:
    Library() = default;
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    // Leaves the other ranks; frees what allocate() gave.
    virtual ~Library() = default;

    [[nodiscard]] virtual std::string name() const = 0;  // with its version
    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;

    // Page-aligned room for so many floats, of the kind that the variant is about. Not initialised.
    // Never freed before the library itself: the benchmark has one buffer, for the largest vector.
    [[nodiscard]] virtual float* allocate(std::size_t count) = 0;

    // data[i] = the sum of all ranks' data[i]. This is the call that is timed.
    virtual void allreduce(float* data, std::size_t count) = 0;

    virtual void barrier() = 0;
};

// Joins the other ranks that the launcher started. Each program links one definition of this; what
// variants there are is said in the text of the error about an unknown one.
[[nodiscard]] std::unique_ptr<Library> join(const std::string& variant);

}  // namespace bench
