// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/device.hpp"

#include <array>
#include <future>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "gpu/cuda/embedded.hpp"
#include "gpu/cuda/nvrtc_library.hpp"

namespace mpi_bridge {

struct CudaDevice::Kernels {
    mutable std::mutex mutex;
    bool tried_built_in = false;
    bool loaded_usual = false;
    std::string no_built_in;          // the reason why the built-in code is not used
    cuda::Module built_in = nullptr;  // the kernels of all codecs
    std::array<cuda::Module, codec_count> compiled{};
    std::array<std::array<cuda::Function, 2>, codec_count> functions{};
};

CudaDevice::CudaDevice(const cuda::Library& cuda, int ordinal)
    : cuda_(cuda), ordinal_(ordinal), kernels_(std::make_unique<Kernels>()) {}

Outcome<CudaDevice*> CudaDevice::get(int ordinal) {
    static std::mutex mutex;
    static auto& devices = *new std::map<int, CudaDevice*>;
    const auto cuda = TRY(cuda::library());
    const std::lock_guard lock(mutex);
    if (const auto found = devices.find(ordinal); found != devices.end()) return found->second;
    auto* device = new CudaDevice(*cuda, ordinal);
    if (auto started = device->start(); !started) {
        delete device;
        return pass_on(std::move(started));
    }
    devices.emplace(ordinal, device);
    return device;
}

Done CudaDevice::start() {
    int devices = 0;
    TRY(cuda_.check(cuda_.device_count(&devices), "cuDeviceGetCount"));
    if (ordinal_ < 0 || ordinal_ >= devices) {
        return invalid(
            fmt::format("there is no CUDA device {}: this process sees {}; check "
                        "CUDA_VISIBLE_DEVICES and the step's --gpus",
                        ordinal_, devices));
    }
    cuda::Device device = 0;
    std::array<char, 256> text{};
    int major = 0;
    int minor = 0;
    TRY(cuda_.check(cuda_.device_get(&device, ordinal_), "cuDeviceGet"));
    TRY(cuda_.check(cuda_.device_name(text.data(), static_cast<int>(text.size()), device),
                    "cuDeviceGetName"));
    name_ = text.data();
    TRY(cuda_.check(cuda_.device_bus_id(text.data(), static_cast<int>(text.size()), device),
                    "cuDeviceGetPCIBusId"));
    bus_id_ = text.data();
    TRY(cuda_.check(cuda_.device_uuid(&uuid_, device), "cuDeviceGetUuid"));
    TRY(cuda_.check(cuda_.device_attribute(&major, cuda::compute_capability_major, device),
                    "cuDeviceGetAttribute"));
    TRY(cuda_.check(cuda_.device_attribute(&minor, cuda::compute_capability_minor, device),
                    "cuDeviceGetAttribute"));
    capability_ = major * 10 + minor;
    return cuda_.check(cuda_.primary_retain(&context_, device), "cuDevicePrimaryCtxRetain");
}

Done CudaDevice::load_built_in() {
    const auto binary = kernel_binary();
    if (!binary) return fail(MPIB_ERROR_INTERNAL, "mpi_bridge was built without a CUDA toolkit");
    return cuda_.check(cuda_.module_load(&kernels_->built_in, binary->data()), "cuModuleLoadData");
}

bool CudaDevice::has_built_in() {
    Kernels& kernels = *kernels_;
    if (!kernels.tried_built_in) {
        kernels.tried_built_in = true;
        if (auto loaded = load_built_in(); !loaded) kernels.no_built_in = loaded.error().text;
    }
    return kernels.built_in != nullptr;
}

Outcome<std::vector<char>> CudaDevice::compile(Codec codec) const {
    const auto nvrtc = TRY(nvrtc::library());
    return nvrtc::compile_codec(*nvrtc, shape_of(codec).name, capability_);
}

Outcome<cuda::Module> CudaDevice::module_of(Codec codec) {
    if (has_built_in()) return kernels_->built_in;
    cuda::Module& compiled = kernels_->compiled[static_cast<std::size_t>(codec)];
    if (compiled != nullptr) return compiled;
    auto loaded = compile(codec).and_then([&](const std::vector<char>& image) {
        return cuda_.check(cuda_.module_load(&compiled, image.data()), "cuModuleLoadData");
    });
    if (loaded) return compiled;
    return fail(MPIB_ERROR_INTERNAL,
                fmt::format("no kernels for {} (sm_{}): {}; and compiling them now: {}", name_,
                            capability_, kernels_->no_built_in, loaded.error().text));
}

Outcome<cuda::Function> CudaDevice::function_of(Codec codec, Way way) {
    auto& function =
        kernels_->functions[static_cast<std::size_t>(codec)][static_cast<std::size_t>(way)];
    if (function != nullptr) return function;
    const auto module = TRY(module_of(codec));
    const auto shape = shape_of(codec);
    const char* name = way == Way::pack ? shape.packer : shape.unpacker;
    TRY(cuda_.check(cuda_.module_function(&function, module, name), "cuModuleGetFunction"));
    return function;
}

Outcome<cuda::Function> CudaDevice::kernel(Codec codec, Way way) {
    const std::lock_guard lock(kernels_->mutex);
    const Current current(*this);
    return function_of(codec, way);
}

Done CudaDevice::load_compiled(std::span<const Codec> codecs) {
    std::vector<std::future<Outcome<std::vector<char>>>> images;
    for (const Codec codec : codecs) {
        // Deferred where no thread can be made.
        images.push_back(std::async(std::launch::async | std::launch::deferred,
                                    [this, codec] { return compile(codec); }));
    }
    for (std::size_t i = 0; i < codecs.size(); ++i) {
        const auto image = images[i].get();
        cuda::Module& compiled = kernels_->compiled[static_cast<std::size_t>(codecs[i])];
        if (!image || compiled != nullptr) continue;
        TRY(cuda_.check(cuda_.module_load(&compiled, image->data()), "cuModuleLoadData"));
    }
    return {};
}

Done CudaDevice::load_usual_kernels() {
    // The others move integers, minima and maxima. NVRTC takes some tenths of a second for each.
    static constexpr std::array usual{Codec::copy8,     Codec::copy16,    Codec::copy32,
                                      Codec::copy64,    Codec::scale_f16, Codec::scale_bf16,
                                      Codec::scale_f32, Codec::scale_f64};
    const std::lock_guard lock(kernels_->mutex);
    if (kernels_->loaded_usual) return {};
    const Current current(*this);
    const bool all = has_built_in();
    if (!all) TRY(load_compiled(usual));
    for (int number = 0; number < codec_count; ++number) {
        const auto codec = static_cast<Codec>(number);
        if (!all && kernels_->compiled[static_cast<std::size_t>(number)] == nullptr) continue;
        for (const Way way : {Way::pack, Way::unpack})
            TRY(function_of(codec, way));
    }
    kernels_->loaded_usual = true;
    return {};
}

std::string CudaDevice::kernel_origin() const {
    const std::lock_guard lock(kernels_->mutex);
    if (!kernels_->tried_built_in) return "not loaded yet";
    return kernels_->built_in != nullptr ? "built in" : "NVRTC";
}

}  // namespace mpi_bridge
