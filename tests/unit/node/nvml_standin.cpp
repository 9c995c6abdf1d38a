// SPDX-License-Identifier: GPL-2.0-or-later
// Stands in for NVIDIA's libnvidia-ml.so.1 on machines without a GPU: three GPUs, one of which does
// not tell its power. If a file "busy" is beside this library, it says for how many percent of the
// time each of them is busy.

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include <dlfcn.h>

namespace {

struct Gpu {
    unsigned int minor;
    unsigned int busy;
    unsigned long long used;
    unsigned int milliwatts;
};
std::array<Gpu, 3> gpus{Gpu{0, 10, 1ULL << 20U, 100400}, Gpu{3, 97, 40ULL << 30U, 349600},
                        Gpu{1, 0, 0, 0}};
constexpr int success = 0;
constexpr int not_supported = 3;

Gpu& gpu_of(void* device) {
    return *static_cast<Gpu*>(device);
}

// Returns the number in the file, or that of the GPU if there is none.
unsigned int busy_of(const Gpu& gpu) {
    Dl_info library{};
    if (dladdr(&gpus, &library) == 0) return gpu.busy;
    unsigned int busy = 0;
    std::ifstream file(std::filesystem::path(library.dli_fname).replace_filename("busy"));
    return file >> busy ? busy : gpu.busy;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
    return success;
}
int nvmlShutdown() {
    return success;
}
const char* nvmlErrorString(int /*code*/) {
    return "an error";
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
    *count = gpus.size();
    return success;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
    *device = &gpus.at(index);
    return success;
}
int nvmlDeviceGetMinorNumber(void* device, unsigned int* number) {
    *number = gpu_of(device).minor;
    return success;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned int* rates) {
    rates[0] = busy_of(gpu_of(device));
    rates[1] = 50;
    return success;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
    memory[0] = 80ULL << 30U;
    memory[1] = memory[0] - gpu_of(device).used;
    memory[2] = gpu_of(device).used;
    return success;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
    *milliwatts = gpu_of(device).milliwatts;
    return *milliwatts == 0 ? not_supported : success;
}
}
