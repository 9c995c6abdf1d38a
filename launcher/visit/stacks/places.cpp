// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/places.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

namespace batchai::visit {

namespace {

// Parts of the paths of code that is not the user's own.
constexpr std::array<std::string_view, 6> folders_of_others{
    "/site-packages/", "/dist-packages/",      "/lib/python3.",
    "/lib64/python3.", "/lib/batchai/python/", "/mpi_bridge/python/mpi_bridge/"};

// Functions that stand between what is called and what does it, such as decorators.
constexpr std::array<std::string_view, 9> wrappers{
    "wrapper",    "wrapped",  "inner", "decorate_context", "_wrapped_call_impl",
    "_call_impl", "__call__", "_fn",   "decorated"};

bool is_wrapper(const StackFrame& frame) {
    return std::find(wrappers.begin(), wrappers.end(), frame.function) != wrappers.end();
}

bool is_users(const StackFrame& frame) {
    if (frame.file.starts_with('<') && frame.file != "<string>" && frame.file != "<stdin>")
        return false;
    return std::none_of(
        folders_of_others.begin(), folders_of_others.end(),
        [&](std::string_view part) { return frame.file.find(part) != std::string::npos; });
}

std::string place_of(const StackFrame& frame) {
    const std::string_view file = base_name(frame.file);
    const std::string line = frame.line == 0 ? "" : fmt::format(":{}", frame.line);
    if (frame.function == "<module>") return fmt::format("at {}{}", file, line);
    return fmt::format("at {}{} in {}()", file, line, frame.function);
}

// Functions of C by which ranks talk to each other, and those of Fortran, which are in a library.
constexpr std::array<std::string_view, 4> calls_of_communication{"MPI_", "PMPI_", "mpib_", "nccl"};
constexpr std::array<std::string_view, 2> calls_from_fortran{"mpi_", "pmpi_"};

bool is_call_of_communication(const StackFrame& frame) {
    const auto begins_it = [&](std::string_view prefix) {
        return frame.function.starts_with(prefix);
    };
    return std::any_of(calls_of_communication.begin(), calls_of_communication.end(), begins_it) ||
           (!frame.library.empty() &&
            std::any_of(calls_from_fortran.begin(), calls_from_fortran.end(), begins_it));
}

// Python code by which ranks talk to each other. What they wait in is the innermost of it.
constexpr std::array<std::string_view, 4> folders_of_communication{
    "/mpi_bridge/", "/horovod/", "/torch/distributed/", "/mpi4py/"};

}  // namespace

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

std::string place_text(const std::vector<StackFrame>& frames) {
    if (frames.empty()) return "runs no Python code";
    const auto users = std::find_if(frames.begin(), frames.end(), is_users);
    if (users == frames.end() || users == frames.begin())
        return place_of(users == frames.end() ? frames.front() : *users);
    auto called = std::prev(users);
    while (called != frames.begin() && is_wrapper(*called))
        --called;
    return fmt::format("in {}(), called {}", called->function, place_of(*users));
}

std::string native_place(const std::vector<StackFrame>& frames) {
    const auto call = std::find_if(frames.rbegin(), frames.rend(), is_call_of_communication);
    const auto own = std::find_if(call.base(), frames.end(), [](const StackFrame& frame) {
        return (frame.library.empty() || frame.line > 0) && !frame.function.empty();
    });
    if (own == frames.end()) return {};
    if (own == frames.begin()) return place_of(*own);
    // The C library's own names of its functions, such as "__poll", say no more.
    std::string_view called = std::prev(own)->function;
    called.remove_prefix(std::min(called.find_first_not_of('_'), called.size()));
    if (called.empty()) return place_of(*own);
    return fmt::format("in {}(), called {}", called, place_of(*own));
}

bool talks_to_others(const std::vector<StackFrame>& python, const std::vector<StackFrame>& native) {
    if (python.empty()) return std::any_of(native.begin(), native.end(), is_call_of_communication);
    return std::any_of(folders_of_communication.begin(), folders_of_communication.end(),
                       [&](std::string_view folder) {
                           return python.front().file.find(folder) != std::string::npos;
                       });
}

}  // namespace batchai::visit
