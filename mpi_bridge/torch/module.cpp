// SPDX-License-Identifier: Apache-2.0
//
// What Python sees of the backend; mpi_bridge/torch_distributed/cpp_backend.py calls it. All of it
// is called with the interpreter lock.
#include <map>
#include <memory>
#include <utility>

#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"
#include "library.hpp"
#include "python.hpp"
#include "work/threads.hpp"

namespace mpi_bridge::torch {

namespace python {

namespace {

// Of the Python package. Never destroyed: the interpreter may be gone by then.
struct Package {
    std::map<int, std::string> class_names;
    pybind11::object raise_error;  // raise_error(status, text)
    pybind11::object close_set;
    pybind11::object split;
    pybind11::object shrink;
    unsigned long main_thread = 0;  // of Python
};

Package& package() {
    static auto* const the_package = new Package;
    return *the_package;
}

}  // namespace

void check_signals() {
    // In any other thread Python looks for none, and a thread that has its lock may wait for this
    // one.
    if (PyThread_get_thread_ident() != package().main_thread) {
        return;
    }
    const pybind11::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) {
        throw pybind11::error_already_set();
    }
}

std::string class_name(int status) {
    const auto found = package().class_names.find(status);
    return found == package().class_names.end() ? "MpiBridgeError" : found->second;
}

void close_set(int process_set) {
    const pybind11::gil_scoped_acquire acquired;
    package().close_set(process_set);
}

c10::intrusive_ptr<c10d::Backend> split(const std::vector<int>& members,
                                        const std::vector<int>& ranks,
                                        std::optional<double> seconds, const std::string& name) {
    const pybind11::gil_scoped_acquire acquired;
    const auto made = package().split(members, ranks, seconds, name);
    if (made.is_none()) {
        return {};
    }
    return made.cast<c10::intrusive_ptr<c10d::Backend>>();
}

c10::intrusive_ptr<c10d::Backend> shrink(const KnownGroup& group,
                                         const std::vector<int64_t>& excluded,
                                         std::optional<double> seconds) {
    const pybind11::gil_scoped_acquire acquired;
    return package()
        .shrink(group.name, group.members, group.rank, group.limit, group.is_of_default_group,
                excluded, seconds)
        .cast<c10::intrusive_ptr<c10d::Backend>>();
}

}  // namespace python

namespace {

const EngineBackend* ours(const c10::intrusive_ptr<c10d::Backend>& backend) {
    return dynamic_cast<const EngineBackend*>(backend.get());
}

/// Makes an Error an exception of mpi_bridge.errors, wherever it leaves torch's functions.
void translate(std::exception_ptr thrown) {
    try {
        if (thrown) {
            std::rethrow_exception(std::move(thrown));
        }
    } catch (const Error& error) {
        try {
            python::package().raise_error(static_cast<int>(error.status()), error.what());
        } catch (pybind11::error_already_set& raised) {
            raised.restore();
        }
    }
}

}  // namespace

}  // namespace mpi_bridge::torch

PYBIND11_MODULE(mpi_bridge_torch, module) {
    namespace py = pybind11;
    using namespace mpi_bridge::torch;
    py::register_exception_translator(translate);

    module.def("function_names", &function_names, "The functions mpib_* that are called.");
    module.def("set_library", &set_library, "Their addresses, by these names.");
    module.def(
        "set_package",
        [](std::map<int, std::string> class_names, py::object raise_error, py::object close_set,
           py::object split, py::object shrink, unsigned long main_thread) {
            python::package() = {std::move(class_names), std::move(raise_error),
                                 std::move(close_set),   std::move(split),
                                 std::move(shrink),      main_thread};
        },
        "What the backend calls in Python.");
    module.def(
        "create",
        [](std::string name, int process_set, bool is_private, bool is_of_default_group,
           std::vector<int> members, int rank, std::optional<double> limit) {
            return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<EngineBackend>(
                EngineBackend::Group{.name = std::move(name),
                                     .process_set = process_set,
                                     .is_private = is_private,
                                     .is_of_default_group = is_of_default_group,
                                     .members = std::move(members),
                                     .rank = rank,
                                     .limit = limit}));
        },
        py::kw_only(), py::arg("name"), py::arg("process_set"), py::arg("is_private"),
        py::arg("is_of_default_group"), py::arg("members"), py::arg("rank"), py::arg("limit"),
        "A group over a process set.");
    module.def(
        "process_set_of",
        [](const c10::intrusive_ptr<c10d::Backend>& backend) -> std::optional<int> {
            const auto* const found = ours(backend);
            return found == nullptr ? std::nullopt : std::optional(found->process_set());
        },
        "The number of the process set, or None if the backend is another one.");
    module.def(
        "works_in_flight",
        [](const c10::intrusive_ptr<c10d::Backend>& backend) {
            std::vector<c10::intrusive_ptr<c10d::Work>> works;
            if (const auto* const found = ours(backend)) {
                for (const auto& work : found->in_flight()) {
                    works.emplace_back(work);
                }
            }
            return works;
        },
        "The operations that are not known to be done.");
    module.def("latest_marks", &latest_marks, "How far the device must come, by process set.");
    module.def(
        "session_has_ended",
        [] {
            session_has_ended();
            Completer::let_all_end();
        },
        "Handles are not valid any more: before mpib_finalize().");
    module.def("session_has_begun", &session_has_begun, "After mpib_init().");
    module.def("await_threads", &await_threads, py::call_guard<py::gil_scoped_release>(),
               "Wait for the threads that complete futures, at most for some seconds.");
}
