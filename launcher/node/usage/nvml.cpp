// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/nvml.hpp"

#include <algorithm>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace batchai::node {

namespace nvml {

// From nvml.h, whose interface is stable.
using Return = int;
using Device = void*;
struct Utilization {
    unsigned int gpu;
    unsigned int memory;
};
struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
constexpr Return success = 0;

}  // namespace nvml

namespace {

constexpr const char* library_name = "libnvidia-ml.so.1";

}  // namespace

struct Nvml::Library {
    void* handle = nullptr;
    nvml::Return (*init)() = nullptr;
    nvml::Return (*shutdown)() = nullptr;
    const char* (*error_string)(nvml::Return) = nullptr;
    nvml::Return (*device_count)(unsigned int*) = nullptr;
    nvml::Return (*device)(unsigned int, nvml::Device*) = nullptr;
    nvml::Return (*minor_number)(nvml::Device, unsigned int*) = nullptr;
    nvml::Return (*utilization)(nvml::Device, nvml::Utilization*) = nullptr;
    nvml::Return (*memory)(nvml::Device, nvml::Memory*) = nullptr;
    nvml::Return (*power)(nvml::Device, unsigned int*) = nullptr;
    bool ready = false;
    struct Gpu {
        int number;
        nvml::Device device;
    };
    std::vector<Gpu> gpus{};

    Library() = default;
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    ~Library() {
        if (ready) shutdown();
        if (handle != nullptr) dlclose(handle);
    }

    template <typename Function>
    bool find(const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(handle, name));
        return function != nullptr;
    }
    bool find_all() {
        return find("nvmlInit_v2", init) && find("nvmlShutdown", shutdown) &&
               find("nvmlErrorString", error_string) &&
               find("nvmlDeviceGetCount_v2", device_count) &&
               find("nvmlDeviceGetHandleByIndex_v2", device) &&
               find("nvmlDeviceGetMinorNumber", minor_number) &&
               find("nvmlDeviceGetUtilizationRates", utilization) &&
               find("nvmlDeviceGetMemoryInfo", memory) && find("nvmlDeviceGetPowerUsage", power);
    }
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

base::Result<Nvml> Nvml::open(const std::vector<int>& numbers) {
    auto library = std::make_unique<Library>();
    library->handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == nullptr) return base::fail(dlerror());
    if (!library->find_all())
        return base::fail("it has not all functions that are needed", library_name);
    if (const nvml::Return code = library->init(); code != nvml::success)
        return base::fail(library->error_string(code), library_name);
    library->ready = true;
    unsigned int count = 0;
    if (const nvml::Return code = library->device_count(&count); code != nvml::success)
        return base::fail(library->error_string(code), library_name);
    for (unsigned int i = 0; i < count; ++i) {
        nvml::Device device = nullptr;
        unsigned int minor = 0;
        if (library->device(i, &device) != nvml::success ||
            library->minor_number(device, &minor) != nvml::success)
            continue;
        const auto number = static_cast<int>(minor);
        if (std::find(numbers.begin(), numbers.end(), number) != numbers.end())
            library->gpus.push_back({number, device});
    }
    if (library->gpus.empty())
        return base::fail(fmt::format("it shows {} GPUs, but none of the job's", count),
                          library_name);
    return Nvml(std::move(library));
}

std::vector<record::GpuUsage> Nvml::read() const {
    std::vector<record::GpuUsage> out;
    for (const Library::Gpu& gpu : library_->gpus) {
        record::GpuUsage& use = out.emplace_back(record::GpuUsage{.index = gpu.number});
        nvml::Utilization utilization{};
        if (library_->utilization(gpu.device, &utilization) == nvml::success)
            use.busy = static_cast<int>(std::min(utilization.gpu, 100U));
        nvml::Memory memory{};
        if (library_->memory(gpu.device, &memory) == nvml::success)
            use.memory = static_cast<std::int64_t>(memory.used);
        unsigned int milliwatts = 0;
        if (library_->power(gpu.device, &milliwatts) == nvml::success)
            use.watts = static_cast<int>((milliwatts + 500) / 1000);
    }
    return out;
}

}  // namespace batchai::node
