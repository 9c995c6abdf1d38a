// SPDX-License-Identifier: Apache-2.0
#include "trace/failure_record.hpp"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/file_descriptor.hpp"
#include "trace_files.hpp"

namespace mpi_bridge {
namespace {

using test::contents;
using test::Directory;
using test::load;

Environment leading_to(const std::string& path) {
    return [path](const char* name) -> std::optional<std::string> {
        if (std::string_view(name) != "MPI_BRIDGE_FAILURE_RECORD") return std::nullopt;
        return path;
    };
}

TEST(FailureRecord, TellsALostPeerFromOtherCauses) {
    const Directory directory;
    const auto environment = leading_to(directory.file("failure"));
    record_failure(environment, 3, {MPIB_ERROR_PEER_LOST, "lost \"rank\" 2\n"});
    record_failure(environment, 4, {MPIB_ERROR_MISMATCH, "sizes differ"});
    const auto lost = load(directory.file("failure.3.json"));
    EXPECT_EQ(lost["schema"], "mpi_bridge-failure/v1");
    EXPECT_EQ(lost["cause"], "peerLost");
    EXPECT_EQ(lost["text"], "lost \"rank\" 2\n");
    EXPECT_EQ(load(directory.file("failure.4.json"))["cause"], "other");
}

TEST(FailureRecord, OfAnAbortStandsOverAnEarlierOneUntilTheRankJoinsAgain) {
    const Directory directory;
    const auto environment = leading_to(directory.file("failure"));
    record_failure(environment, 0, {MPIB_ERROR_PEER_LOST, "a text that is longer than the next"});
    record_abort(environment, 0, "no data");
    EXPECT_EQ(load(directory.file("failure.0.json"))["cause"], "aborted");
    EXPECT_EQ(load(directory.file("failure.0.json"))["text"], "no data");
    forget_failure(environment, 0);
    EXPECT_EQ(contents(directory.file("failure.0.json")), "");
}

// Breaks when a launcher takes the failure of a rank that has another number now for that of
// another.
TEST(FailureRecord, HasTheNumberThatTheLauncherKnows) {
    const Directory directory;
    const auto environment =
        [path = directory.file("failure")](const char* name) -> std::optional<std::string> {
        if (std::string_view(name) == "MPI_BRIDGE_FAILURE_RECORD") return path;
        if (std::string_view(name) == "MPI_BRIDGE_FAILURE_RECORD_RANK") return "7";
        return std::nullopt;
    };
    record_failure(environment, 3, {MPIB_ERROR_PEER_LOST, "lost rank 2"});
    EXPECT_EQ(load(directory.file("failure.7.json"))["cause"], "peerLost");
    EXPECT_EQ(contents(directory.file("failure.3.json")), "");
    forget_failure(environment, 3);
    EXPECT_EQ(contents(directory.file("failure.7.json")), "");
}

// Breaks when ranks wait for a lost one until its file system answers. Nobody reads the FIFO, so
// opening it takes as long as on a file system that hangs.
TEST(FailureRecord, IsLeftBehindWhereItsFileSystemHangs) {
    const Directory directory;
    const std::string fifo = directory.file("failure.2.json");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    record_failure(leading_to(directory.file("failure")), 2, {MPIB_ERROR_MISMATCH, "sizes differ"});

    const FileDescriptor reader(open(fifo.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 256> text{};
    const ssize_t length = read(reader.number(), text.data(), text.size());
    EXPECT_THAT(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))),
                testing::HasSubstr("sizes differ"));
}

TEST(FailureRecord, IsNotWrittenUnlessSomebodyWantsIt) {
    const Directory directory;
    record_abort(leading_to(""), 0, "no data");
    record_abort([](const char*) { return std::nullopt; }, 0, "no data");
    record_abort(leading_to(directory.file("none/failure")), 0, "no data");
    EXPECT_EQ(contents(directory.file("none/failure.0.json")), "");
}

}  // namespace
}  // namespace mpi_bridge
