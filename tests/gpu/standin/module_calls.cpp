// SPDX-License-Identifier: Apache-2.0
//
// The driver's calls that load kernels and launch them.
#include <algorithm>
#include <cstring>
#include <string>

#include "capture.hpp"
#include "handles.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace mpi_bridge::cuda {

struct ModuleRecord {
    standin::Device* device = nullptr;
    std::string codec;
};
struct FunctionRecord {
    standin::Device* device = nullptr;
    const standin::KernelEntry* kernel = nullptr;
};

}  // namespace mpi_bridge::cuda

using namespace standin;

namespace {

using mpi_bridge::kernels::Arguments;

Handles<cuda::ModuleRecord>& modules() {
    static auto& handles = *new Handles<cuda::ModuleRecord>("a module");
    return handles;
}

Handles<cuda::FunctionRecord>& functions() {
    static auto& handles = *new Handles<cuda::FunctionRecord>("a kernel");
    return handles;
}

// With the addresses at which this process finds the memory.
Arguments reached(const KernelEntry& kernel, const Arguments& arguments, int device) {
    Arguments own = arguments;
    const auto find = [&](unsigned long long address, unsigned long long bytes) {
        return reinterpret_cast<unsigned long long>(Memory::get().reach(address, bytes, device));
    };
    const unsigned long long before = arguments.first * kernel.wire_bytes;
    own.bucket = find(arguments.bucket + before, arguments.elements * kernel.wire_bytes) - before;
    for (unsigned i = 0; i < arguments.pieces; ++i)
        own.piece[i].address =
            find(arguments.piece[i].address, arguments.piece[i].count * kernel.tensor_bytes);
    return own;
}

}  // namespace

extern "C" {

cuda::Result cuModuleLoadData(cuda::Module* module, const void* image) {
    if (const auto refused = enter_unsafe("cuModuleLoadData")) return refused;
    // Code for a real device has another beginning.
    const auto* text = static_cast<const char*>(image);
    if (std::strncmp(text, image_mark.data(), image_mark.size() + 1) != 0) {
        return result(no_binary);
    }
    auto record = std::make_unique<cuda::ModuleRecord>();
    record->device = current_device();
    record->codec = text + image_mark.size() + 1;
    *module = modules().add(std::move(record));
    return cuda::success;
}

cuda::Result cuModuleUnload(cuda::Module module) {
    if (const auto refused = enter_unsafe("cuModuleUnload")) return refused;
    modules().remove(module);
    return cuda::success;
}

cuda::Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
    if (const auto refused = enter_unsafe("cuModuleGetFunction")) return refused;
    const cuda::ModuleRecord& from = modules().at(module);
    const auto all = kernels();
    const auto found = std::find_if(all.begin(), all.end(), [&](const KernelEntry& each) {
        return each.codec == from.codec && each.name == name;
    });
    if (found == all.end()) return result(not_found);
    auto record = std::make_unique<cuda::FunctionRecord>();
    record->device = from.device;
    record->kernel = &*found;
    *function = functions().add(std::move(record));
    return cuda::success;
}

cuda::Result cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned /*shared_bytes*/, cuda::Stream handle, void** parameters,
                            void** /*extra*/) {
    if (const auto refused = enter("cuLaunchKernel")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    const cuda::FunctionRecord& record = functions().at(function);
    if (record.device != &stream->device) return result(invalid_handle);
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1) {
        return result(invalid_value);
    }
    if (stream->capture() != nullptr) return result(state_of_capture(*stream));
    // The driver copies the arguments before it returns.
    stream->put([=, kernel = record.kernel, device = stream->device.ordinal,
                 arguments = *static_cast<const Arguments*>(parameters[0])] {
        run_kernel(*kernel, grid_x, block_x, reached(*kernel, arguments, device));
        // For tests that count them.
        static_cast<void>(
            Plan::get().enter(("kernels of device " + std::to_string(device)).c_str()));
    });
    return cuda::success;
}
}
