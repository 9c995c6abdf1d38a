// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/nvml.hpp"

#include <algorithm>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace batchai::node {

namespace {

constexpr const char* library_name = "libnvidia-ml.so.1";

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

}  // namespace

struct Nvml::Library {
    void* handle = nullptr;
    Return (*init)() = nullptr;
    Return (*shutdown)() = nullptr;
    const char* (*error_string)(Return) = nullptr;
    Return (*device_count)(unsigned int*) = nullptr;
    Return (*device)(unsigned int, Device*) = nullptr;
    Return (*minor_number)(Device, unsigned int*) = nullptr;
    Return (*utilization)(Device, Utilization*) = nullptr;
    Return (*memory)(Device, Memory*) = nullptr;
    Return (*power)(Device, unsigned int*) = nullptr;
    bool ready = false;
    struct Gpu {
        int number;
        Device device;
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
    if (const Return code = library->init(); code != success)
        return base::fail(library->error_string(code), library_name);
    library->ready = true;
    unsigned int count = 0;
    if (const Return code = library->device_count(&count); code != success)
        return base::fail(library->error_string(code), library_name);
    for (unsigned int i = 0; i < count; ++i) {
        Device device = nullptr;
        unsigned int minor = 0;
        if (library->device(i, &device) != success ||
            library->minor_number(device, &minor) != success)
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
        Utilization utilization{};
        if (library_->utilization(gpu.device, &utilization) == success)
            use.busy = static_cast<int>(std::min(utilization.gpu, 100U));
        Memory memory{};
        if (library_->memory(gpu.device, &memory) == success)
            use.memory = static_cast<std::int64_t>(memory.used);
        unsigned int milliwatts = 0;
        if (library_->power(gpu.device, &milliwatts) == success)
            use.watts = static_cast<int>((milliwatts + 500) / 1000);
    }
    return out;
}

}  // namespace batchai::node
