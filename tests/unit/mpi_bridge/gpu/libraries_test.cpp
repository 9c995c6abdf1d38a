// SPDX-License-Identifier: Apache-2.0
//
// The vendors' libraries as they are found on this machine, and what is said where they are not.
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "gpu/cuda/device.hpp"
#include "gpu/cuda/embedded.hpp"
#include "gpu/cuda/nvrtc_library.hpp"
#include "gpu/device_group.hpp"
#include "gpu/nccl/library.hpp"
#include "gpu/shared_library.hpp"
#include "gpu/wire/codec.hpp"

namespace {

using namespace mpi_bridge;

constexpr const char* no_such_names[] = {"libmpib_no_such.so.7", "libmpib_no_such.so.6"};
constexpr LibraryRequest no_such{
    "the missing one", "MPIB_TEST_LIBRARY", no_such_names, {}, "install it"};

class WithVariable : public testing::Test {
  protected:
    static void set(const char* value) { setenv("MPIB_TEST_LIBRARY", value, 1); }
    void TearDown() override { unsetenv("MPIB_TEST_LIBRARY"); }
};

TEST_F(WithVariable, AMissingLibrarysTextSaysWhatWasTriedAndWhatToInstall) {
    const auto library = SharedLibrary::open(no_such);
    ASSERT_FALSE(library);
    for (const char* part : {"the missing one", "libmpib_no_such.so.7", "libmpib_no_such.so.6",
                             "install it", "MPIB_TEST_LIBRARY"}) {
        EXPECT_NE(library.error().text.find(part), std::string::npos) << library.error().text;
    }
}

TEST_F(WithVariable, TheVariablesFileIsTakenAndNoOther) {
    set("libc.so.6");
    const auto library = SharedLibrary::open(no_such);
    ASSERT_TRUE(library) << library.error().text;
    int (*function)(const char*) = nullptr;
    EXPECT_TRUE(library->bind(function, "atoi"));
    EXPECT_EQ(function("12"), 12);
    const auto missing = library->bind(function, "mpib_no_such_function");
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().text.find("mpib_no_such_function"), std::string::npos);

    set("/no/such/file.so");
    const auto refused = SharedLibrary::open(no_such);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("/no/such/file.so"), std::string::npos);
    EXPECT_EQ(refused.error().text.find("libmpib_no_such"), std::string::npos);
}

TEST(Libraries, VersionsAreReadAsNcclWritesThem) {
    EXPECT_EQ(nccl::version_text(22809), "2.28.9");
    EXPECT_EQ(nccl::version_text(2708), "2.7.8");
}

TEST(Libraries, NcclIsLoadedAndNewEnough) {
    const auto nccl = nccl::library();
    if (!nccl) GTEST_SKIP() << nccl.error().text;
    EXPECT_GE((*nccl)->version, nccl::oldest_version);
    EXPECT_FALSE((*nccl)->path.empty());
    EXPECT_EQ((*nccl)->describe(nccl::success, nullptr).substr(0, 8), "no error");
}

TEST(Libraries, NvrtcCompilesTheKernelsForAmpereAndHopper) {
    const auto nvrtc = nvrtc::library();
    if (!nvrtc) GTEST_SKIP() << nvrtc.error().text;
    for (const int capability : {80, 90}) {
        for (const Codec codec : {Codec::copy32, Codec::i16_as_i32, Codec::i64_as_pair}) {
            const auto image = nvrtc::compile_codec(**nvrtc, shape_of(codec).name, capability);
            ASSERT_TRUE(image) << image.error().text;
            EXPECT_EQ(std::string(image->data() + 1, 3), "ELF");
            // Both kernels are in it, by the names they are asked for.
            const std::string text(image->begin(), image->end());
            EXPECT_NE(text.find(shape_of(codec).packer), std::string::npos);
            EXPECT_NE(text.find(shape_of(codec).unpacker), std::string::npos);
        }
    }
    const auto wrong = nvrtc::compile_codec(**nvrtc, "no_such_codec", 90);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().text.find("no_such_codec"), std::string::npos);
}

TEST(Libraries, KernelsCompiledWithTheLibraryAreAFatBinary) {
    const auto binary = kernel_binary();
    if (!binary) GTEST_SKIP() << "built without nvcc";
    // The first word of every fat binary.
    EXPECT_EQ(std::string(binary->begin(), binary->begin() + 4), "\x50\xed\x55\xba");
    EXPECT_NE(kernel_source().find("MPI_BRIDGE_CODECS"), std::string_view::npos);
}

TEST(Libraries, AMissingDriverIsNamedAndItsMemoryIsHostMemory) {
    const auto cuda = cuda::library();
    int local = 0;
    EXPECT_EQ(*device_of(&local), -1);
    if (cuda) GTEST_SKIP() << "there is a driver: " << (*cuda)->path;
    EXPECT_NE(cuda.error().text.find("CUDA"), std::string::npos) << cuda.error().text;
    EXPECT_FALSE(CudaDevice::get(0));
}

}  // namespace
