// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/nvrtc_library.hpp"

#include <array>
#include <memory>

#include <fmt/format.h>

#include "gpu/cuda/embedded.hpp"
#include "gpu/shared_library.hpp"

namespace mpi_bridge::nvrtc {
namespace {

constexpr const char* file_names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* package_folders[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};

constexpr LibraryRequest request{
    "NVRTC", "MPI_BRIDGE_NVRTC_LIBRARY", file_names, package_folders,
    "install NVRTC (cuda-nvrtc of the CUDA toolkit, or nvidia-cuda-nvrtc from PyPI) or build "
    "mpi_bridge where the CUDA toolkit is"};

Done bind_all(const SharedLibrary& file, Library& nvrtc) {
    Done done;
    const auto bind = [&](auto& function, const char* symbol) {
        if (done) done = file.bind(function, symbol);
    };
    bind(nvrtc.version, "nvrtcVersion");
    bind(nvrtc.error_string, "nvrtcGetErrorString");
    bind(nvrtc.create, "nvrtcCreateProgram");
    bind(nvrtc.destroy, "nvrtcDestroyProgram");
    bind(nvrtc.compile, "nvrtcCompileProgram");
    bind(nvrtc.log_size, "nvrtcGetProgramLogSize");
    bind(nvrtc.log, "nvrtcGetProgramLog");
    bind(nvrtc.binary_size, "nvrtcGetCUBINSize");
    bind(nvrtc.binary, "nvrtcGetCUBIN");
    return done;
}

Outcome<Library> load() {
    const auto file = TRY(SharedLibrary::open(request));
    Library nvrtc{};
    nvrtc.path = file.path();
    TRY(bind_all(file, nvrtc));
    return nvrtc;
}

std::string log_of(const Library& nvrtc, Program program) {
    std::size_t bytes = 0;
    if (nvrtc.log_size(program, &bytes) != 0 || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (nvrtc.log(program, text.data()) != 0) return {};
    text.pop_back();  // the terminating zero
    return text;
}

}  // namespace

Outcome<const Library*> library() {
    static const Outcome<Library> loaded = load();
    if (!loaded) return tl::unexpected<Failure>(loaded.error());
    return &*loaded;
}

Outcome<std::vector<char>> compile_codec(const Library& nvrtc, const char* codec, int capability) {
    const auto failed = [&](const char* call, Result result, const std::string& log) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("{} failed for codec {} and sm_{}: {} {}", call, codec, capability,
                                nvrtc.error_string(result), log));
    };
    const std::string source(kernel_source());
    const std::string codecs(kernel_codecs());
    const std::string interface(kernel_interface());
    const std::array texts = {codecs.c_str(), interface.c_str()};
    const std::array names = {"kernel_codecs.h", "kernel_interface.h"};
    Program program = nullptr;
    Result result = nvrtc.create(&program, source.c_str(), "kernels.cu",
                                 static_cast<int>(texts.size()), texts.data(), names.data());
    if (result != 0) return failed("nvrtcCreateProgram", result, {});
    const auto destroy = [&](Program owned) { nvrtc.destroy(&owned); };
    const std::unique_ptr<ProgramRecord, decltype(destroy)> owner(program, destroy);

    const auto architecture = fmt::format("--gpu-architecture=sm_{}", capability);
    const auto definition = fmt::format("-DMPIB_ONLY_CODEC={}", codec);
    const std::array options = {architecture.c_str(), definition.c_str(), "--std=c++17"};
    result = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
    if (result != 0) return failed("nvrtcCompileProgram", result, log_of(nvrtc, program));
    std::size_t bytes = 0;
    result = nvrtc.binary_size(program, &bytes);
    if (result != 0) return failed("nvrtcGetCUBINSize", result, {});
    std::vector<char> image(bytes);
    result = nvrtc.binary(program, image.data());
    if (result != 0) return failed("nvrtcGetCUBIN", result, {});
    return image;
}

}  // namespace mpi_bridge::nvrtc
