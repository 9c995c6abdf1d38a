// SPDX-License-Identifier: Apache-2.0
//
// Every kernel on the GPU beside the same source on the host, bit for bit.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "gpu/bucket.hpp"
#include "gpu/cuda/nvrtc_library.hpp"
#include "gpu/staged/host_kernels.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

constexpr auto poison = std::byte{0xA5};

// Random bits hold NaNs, whose payload the GPU's conversions drop; so floats are random numbers.
std::vector<std::byte> random_tensors(Codec codec, std::size_t bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> all(bytes);
    const std::string name = shape_of(codec).name;
    const bool half = name.find("f16") != std::string::npos && name.find("f32") != 0;
    const bool single = name.find("f32") != std::string::npos;
    const bool twice = name.find("f64") != std::string::npos;
    if (single) {
        for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
            const float value = std::ldexp(static_cast<float>(static_cast<int>(random())),
                                           static_cast<int>(random() % 40) - 50);
            std::memcpy(all.data() + i, &value, 4);
        }
    } else if (twice) {
        for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
            const double value = static_cast<double>(static_cast<int>(random())) / 1024;
            std::memcpy(all.data() + i, &value, 8);
        }
    } else {
        for (auto& byte : all)
            byte = static_cast<std::byte>(random());
        // The largest exponents of both 16-bit types, infinities and NaNs, are left out.
        for (std::size_t i = 1; half && i < bytes; i += 2)
            all[i] &= std::byte{0xBB};
    }
    return all;
}

class EveryKernel : public testing::TestWithParam<int> {
  protected:
    void SetUp() override {
        auto device = first_device();
        if (!device) GTEST_SKIP() << device.error().text;
        device_ = *device;
        queue_ = must(CudaQueue::open(*device_));
    }

    CudaDevice* device_ = nullptr;
    std::unique_ptr<CudaQueue> queue_;
};

struct Case {
    std::vector<std::size_t> offsets;  // of tensors, in bytes
    std::vector<std::size_t> counts;
    std::size_t bytes = 0;
};

Case tensors_of_all_sizes(const CodecShape& shape) {
    Case c;
    std::mt19937 random(5);
    std::vector<std::size_t> counts = {
        1, 0, 15, 16, 17, 33, shape.tile - 1, shape.tile, shape.tile + 1, 9UL * shape.tile + 5};
    for (std::size_t i = 0; i < 300; ++i)
        counts.push_back(random() % 100);
    for (const std::size_t count : counts) {
        c.bytes += shape.tensor_bytes * (random() % 4);
        c.offsets.push_back(c.bytes);
        c.counts.push_back(count);
        c.bytes += count * shape.tensor_bytes;
    }
    return c;
}

std::vector<DevicePart> parts_at(const Case& c, std::byte* memory) {
    std::vector<DevicePart> parts;
    for (std::size_t i = 0; i < c.counts.size(); ++i)
        parts.push_back({memory + c.offsets[i], memory + c.offsets[i], c.counts[i]});
    return parts;
}

TEST_P(EveryKernel, DoesOnTheDeviceWhatItDoesOnTheHost) {
    const auto codec = static_cast<Codec>(GetParam());
    const CodecShape shape = shape_of(codec);
    const Case c = tensors_of_all_sizes(shape);
    auto on_host = random_tensors(codec, c.bytes, 3);
    const DeviceBytes on_device(*queue_, on_host);
    const auto host_parts = parts_at(c, on_host.data());
    const auto device_parts = parts_at(c, on_device.at());
    const BucketLayout layout = lay_out(host_parts);
    const std::size_t bucket_bytes = layout.elements * shape.wire_bytes + 32;
    std::vector<std::byte> host_bucket(bucket_bytes, poison);
    const DeviceBytes device_bucket(*queue_, host_bucket);

    kernels::Arguments arguments{};
    arguments.factor = is_copy(codec) ? 1 : 0.75;
    arguments.divisor = 3;
    for (const Way way : {Way::pack, Way::unpack}) {
        arguments.bucket = reinterpret_cast<std::uintptr_t>(host_bucket.data());
        for (const auto& launch : launches_for(host_parts, layout, way, arguments))
            run_on_host(codec, way, launch);
        arguments.bucket = reinterpret_cast<std::uintptr_t>(device_bucket.at());
        for (const auto& launch : launches_for(device_parts, layout, way, arguments))
            must(queue_->launch(codec, way, launch));
        ASSERT_EQ(device_bucket.content(), host_bucket) << shape.name;
        ASSERT_EQ(on_device.content(), on_host) << shape.name;
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel, testing::Range(0, codec_count),
                         [](const auto& codec) {
                             return std::string(shape_of(static_cast<Codec>(codec.param)).name);
                         });

TEST(Kernels, CompiledByNvrtcCanBeLoaded) {
    auto device = first_device();
    if (!device) GTEST_SKIP() << device.error().text;
    const auto nvrtc = nvrtc::library();
    if (!nvrtc) GTEST_SKIP() << nvrtc.error().text;
    const CudaDevice::Current current(**device);
    const cuda::Library& cuda = (*device)->cuda();
    for (int i = 0; i < codec_count; ++i) {
        const CodecShape shape = shape_of(static_cast<Codec>(i));
        const auto image = must(nvrtc::compile_codec(**nvrtc, shape.name, (*device)->capability()));
        cuda::Module module = nullptr;
        must(cuda.check(cuda.module_load(&module, image.data()), "cuModuleLoadData"));
        cuda::Function function = nullptr;
        must(cuda.check(cuda.module_function(&function, module, shape.packer), shape.packer));
        must(cuda.check(cuda.module_function(&function, module, shape.unpacker), shape.unpacker));
        must(cuda.check(cuda.module_unload(module), "cuModuleUnload"));
    }
}

}  // namespace
