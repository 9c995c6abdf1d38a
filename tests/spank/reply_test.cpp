// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/reply.hpp"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "node/reply.hpp"
#include "spank/gpu_environment.hpp"
#include "spank/protocol.h"

namespace {

using batchai::spank::parse_reply;

std::string reply_with(const std::vector<batchai::plan::Variable>& environment,
                       const std::vector<std::string>& unset = {},
                       const std::string& directory = {}, bool one_id = false) {
    return batchai::node::success_reply({environment, unset, directory, one_id});
}

const std::string good = reply_with({{"A", "1"}, {"EMPTY", ""}, {"B", "x=y\nz"}});

TEST(Reply, ArrivesAsItWasSent) {
    const auto reply = parse_reply(good);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->ok);
    EXPECT_EQ(reply->environment, (std::vector<std::string>{"A=1", "EMPTY=", "B=x=y\nz"}));
}

TEST(Reply, SaysWhereAndHowATaskOfAContainerStarts) {
    const auto reply = parse_reply(reply_with({{"A", "1"}}, {"GONE"}, "/work", true));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->environment, (std::vector<std::string>{"GONE", "A=1"}));
    EXPECT_EQ(reply->text, "/work");
    EXPECT_TRUE(reply->one_id);
    EXPECT_FALSE(parse_reply(good)->one_id);
}

TEST(Reply, CarriesTheErrorsText) {
    const auto reply =
        parse_reply(batchai::node::failure_reply({"no such share", "/data", "ask", {}}));
    ASSERT_TRUE(reply);
    EXPECT_FALSE(reply->ok);
    EXPECT_EQ(reply->text, "/data: no such share\nhint: ask");
}

TEST(Reply, IsRefusedWhenCutShortAnywhere) {
    for (std::size_t length = 0; length < good.size(); ++length)
        EXPECT_FALSE(parse_reply(std::string_view(good).substr(0, length))) << length;
}

TEST(Reply, IsRefusedWhenLongerThanItSays) {
    EXPECT_FALSE(parse_reply(good + "x"));
}

TEST(Reply, IsRefusedWithLengthsThatOverflow) {
    std::string bytes = good;
    const std::uint32_t huge = 0xffffffffU;
    std::memcpy(bytes.data() + offsetof(batchai_reply_header, text_length), &huge, sizeof huge);
    EXPECT_FALSE(parse_reply(bytes));
}

TEST(Reply, OfAnotherVersionIsRefused) {
    std::string bytes = good;
    bytes[offsetof(batchai_reply_header, version)] ^= 0x40;
    EXPECT_FALSE(parse_reply(bytes));
}

TEST(Reply, WithAVariableWithoutANameIsRefused) {
    EXPECT_FALSE(parse_reply(reply_with({{"", "value"}})));
}

TEST(CountDevices, TakesTheNumberBeforeTheList) {
    using batchai::spank::count_devices;
    EXPECT_EQ(count_devices("4", "0,1"), 4);
    EXPECT_EQ(count_devices("", "0,1"), 2);
    EXPECT_EQ(count_devices("x", "GPU-1"), 1);
    EXPECT_EQ(count_devices("", ""), 0);
    EXPECT_EQ(count_devices("", "NoDevFiles"), 0);
}

TEST(NcclsFile, SetsAVariableInALineOfItsOwn) {
    using batchai::spank::sets_variable;
    EXPECT_TRUE(
        sets_variable("NCCL_DEBUG=WARN\n NCCL_SOCKET_IFNAME = ib0\r\n", "NCCL_SOCKET_IFNAME"));
    EXPECT_TRUE(sets_variable("NCCL_SOCKET_IFNAME=", "NCCL_SOCKET_IFNAME"));
    EXPECT_FALSE(
        sets_variable("# NCCL_SOCKET_IFNAME=ib0\nNCCL_SOCKET_IFNAMES=ib0\n\nNCCL_SOCKET_IFNAME",
                      "NCCL_SOCKET_IFNAME"));
    EXPECT_FALSE(sets_variable("", "NCCL_SOCKET_IFNAME"));
}

}  // namespace
