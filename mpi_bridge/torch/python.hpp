// SPDX-License-Identifier: Apache-2.0
//
// What the backend needs of Python: signals, errors, and the functions that make and end process
// sets.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

namespace mpi_bridge::torch::python {

/// Runs signal handlers if this is Python's main thread; throws what a handler raises.
void check_signals();

/// Calls this without the interpreter lock, which the caller may have.
template <typename Function>
void without_lock(Function&& function) {
    // PyGILState_Check() may not be called once the interpreter has gone.
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
        const pybind11::gil_scoped_release released;
        std::forward<Function>(function)();
    } else {
        std::forward<Function>(function)();
    }
}

/// The name of the class of mpi_bridge.errors for a status.
std::string class_name(int status);

/// Ends a process set that only its members know.
void close_set(int process_set);

/// What a group's members make when they split it: see groups.py.
c10::intrusive_ptr<c10d::Backend> split(const std::vector<int>& members,
                                        const std::vector<int>& ranks,
                                        std::optional<double> seconds, const std::string& name);

/// A group as shrinking.py has it.
struct KnownGroup {
    const std::string& name;
    const std::vector<int>& members;
    int rank;
    std::optional<double> limit;
    bool is_of_default_group;
};

/// What the ranks of a group that are not `excluded` make when they shrink it: see groups.py.
c10::intrusive_ptr<c10d::Backend> shrink(const KnownGroup& group,
                                         const std::vector<int64_t>& excluded,
                                         std::optional<double> seconds);

}  // namespace mpi_bridge::torch::python
