// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"

namespace mpi_bridge {

// Which library is wanted, and the texts for a failure to find it.
struct LibraryRequest {
    std::string_view name;                    // for messages: "NCCL"
    const char* override_variable = nullptr;  // names the file to load instead of any other
    std::span<const char* const> file_names;  // in the order of preference: "libnccl.so.2"
    // Where a Python package installs the library, below site-packages: "nvidia/nccl/lib".
    std::span<const char* const> package_folders;
    std::string_view advice;  // what to install: "install NCCL 2.20 or newer (...)"
};

// A library of another vendor, opened at run time so that this library also runs without it. It is
// never closed, because its threads and callbacks may outlive every use here.
class SharedLibrary {
  public:
    // Tries, in this order: the file that the override variable names, and then no other; a library
    // of that name that is already in the process (PyTorch brings its own, and two copies would not
    // know each other's handles); the loader's own search; the Python packages of $VIRTUAL_ENV and
    // $CONDA_PREFIX; a CUDA toolkit in $CUDA_HOME or /usr/local/cuda. The text of a failure says
    // what was tried.
    [[nodiscard]] static Outcome<SharedLibrary> open(const LibraryRequest& request);

    // Returns the one that open() would return, provided that it is in the process already. Loads
    // nothing.
    [[nodiscard]] static std::optional<SharedLibrary> find_loaded(const LibraryRequest& request);

    // Sets `function` to the symbol's address. A failure names the symbol and the file.
    template <typename Function>
    [[nodiscard]] Done bind(Function*& function, const char* symbol) const {
        const auto address = TRY(find(symbol));
        function = reinterpret_cast<Function*>(address);
        return {};
    }

    // The file's path as the loader knows it.
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
    [[nodiscard]] Outcome<void*> find(const char* symbol) const;

    void* handle_;
    std::string path_;
};

// Returns the existing paths that are tried after the loader's own search.
[[nodiscard]] std::vector<std::string> library_paths(const LibraryRequest& request);

}  // namespace mpi_bridge
