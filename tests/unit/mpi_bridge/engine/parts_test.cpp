// SPDX-License-Identifier: Apache-2.0
//
// The parts of the engine that need no other rank. What the members of a process set make of their
// requests together is tested by schedules/.
#include <cstring>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "engine/engine_settings.hpp"
#include "engine/execute/neutral.hpp"
#include "engine/handle.hpp"
#include "engine/negotiation/plan/buckets.hpp"
#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/named_request.hpp"
#include "engine/negotiation/requests/pending_table.hpp"
#include "engine/negotiation/requests/request_table.hpp"
#include "reduce/reduction.hpp"

namespace {

using namespace mpi_bridge;

Descriptor allreduce_of(std::int64_t count, mpib_op op = MPIB_SUM) {
    Descriptor descriptor;
    descriptor.datatype = MPIB_FLOAT32;
    descriptor.op = op;
    descriptor.shape = {count};
    return descriptor;
}

TEST(Descriptor, OfAnOperationHoldsWhatTheKindHasUseFor) {
    const std::int64_t shape[] = {4, 3};
    mpib_operation operation{};
    operation.kind = MPIB_ALLGATHER;
    operation.shape = shape;
    operation.dimensions = 2;
    operation.datatype = MPIB_INT32;
    operation.root = 5;
    operation.prescale = 7;
    const Descriptor descriptor = describe(operation);
    EXPECT_EQ(descriptor.shape, (std::vector<std::int64_t>{Descriptor::any_length, 3}));
    EXPECT_EQ(descriptor.root, -1);
    EXPECT_EQ(descriptor.prescale, 1);
    EXPECT_TRUE(describes(descriptor, operation));
    EXPECT_EQ(row_elements(descriptor), 3U);
    const std::int64_t longer[] = {9, 3};
    operation.shape = longer;
    EXPECT_TRUE(describes(descriptor, operation));
    const std::int64_t wider[] = {4, 2};
    operation.shape = wider;
    EXPECT_FALSE(describes(descriptor, operation));
}

TEST(Descriptor, TellsAllWhoHoldTheSameValue) {
    std::vector<Claim> claims = {{allreduce_of(3), {0b0001}},
                                 {allreduce_of(4), {0b0110}},
                                 {allreduce_of(3, MPIB_MAX), {0b1000}}};
    EXPECT_EQ(mismatch_text("w", claims),
              "\"w\": ranks disagree in the reduction: sum on ranks 0-2, max on rank 3; every rank "
              "must pass the same under one name");
    claims.pop_back();
    EXPECT_EQ(
        mismatch_text("w", claims),
        "\"w\": ranks disagree in the shape: [3] on rank 0, [4] on ranks 1-2; every rank must "
        "pass the same under one name");
}

TEST(Requests, ComeBackAsTheyWere) {
    std::vector<NamedRequest> requests(2);
    requests[0] = {"grad/layer 1 \"x\"", allreduce_of(12)};
    requests[1].name = "b";
    requests[1].descriptor.kind = Kind::alltoall;
    requests[1].descriptor.shape = {Descriptor::any_length, std::int64_t{1} << 40};
    requests[1].descriptor.group = "g";
    requests[1].descriptor.group_size = 3;
    const auto bytes = encode(requests);
    const auto back = decode(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, requests);
    EXPECT_TRUE(decode({})->empty());
}

TEST(Requests, ThatAreCutOffOrSpoiledAreRefused) {
    const std::vector<NamedRequest> one = {{"name", allreduce_of(1)}};
    const auto bytes = encode(one);
    for (std::size_t length = 1; length < bytes.size(); ++length)
        EXPECT_FALSE(decode(std::span(bytes).first(length))) << length;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        auto spoiled = bytes;
        spoiled[at] = std::byte{0xff};
        (void)decode(spoiled);  // whatever it gives, it must end, within the bytes
    }
}

TEST(PendingTable, ForgetsTheNamesUsedLongestAgo) {
    PendingTable names(1, 8);
    for (std::uint64_t serial = 1; serial <= 9; ++serial) {
        const auto id = names.hear(0, 0, {"n" + std::to_string(serial), allreduce_of(1)});
        if (serial == 2) continue;  // still waited for
        (void)names.settle(id);
        names.executed(id, serial);
    }
    const auto kept = names.find("n3");
    const auto forgotten = names.forget([&](PendingTable::Id id) { return id == kept; });
    EXPECT_EQ(forgotten.size(), 3U);
    for (const char* name : {"n1", "n4", "n5"})
        EXPECT_EQ(names.find(name), PendingTable::none);
    for (const char* name : {"n2", "n3", "n6", "n9"})
        EXPECT_NE(names.find(name), PendingTable::none);
    // Numbers are used again.
    (void)names.hear(0, 0, {"new", allreduce_of(1)});
    EXPECT_EQ(names.size(), 9U);
}

std::vector<std::vector<std::uint32_t>> buckets_of(const std::vector<Bucket>& items) {
    std::vector<std::vector<std::uint32_t>> buckets;
    for (const Bucket& item : items) {
        for (const FusedGroup& part : item.groups)
            buckets.push_back(part.ids);
    }
    return buckets;
}

using Buckets = std::vector<std::vector<std::uint32_t>>;

TEST(Plan, FillsBucketsInOrderUpToTheirLimits) {
    const std::vector<Descriptor> what(7, allreduce_of(100));
    std::vector<Sequenced> sequence;
    for (std::uint32_t id = 0; id < 7; ++id)
        sequence.push_back({id, &what[id], id + 1, 0});
    EXPECT_EQ(buckets_of(arrange(sequence, {800, 1200})), (Buckets{{0, 1}, {2, 3, 4}, {5, 6}}));
    EXPECT_EQ(buckets_of(arrange(sequence, {0, 0})), (Buckets{{0}, {1}, {2}, {3}, {4}, {5}, {6}}));
    EXPECT_EQ(buckets_of(arrange(sequence, {399, 800})), (Buckets{{0}, {1, 2}, {3, 4}, {5, 6}}));
}

TEST(Plan, KeepsApartWhatCannotShareABucket) {
    Descriptor maximum = allreduce_of(1, MPIB_MAX);
    Descriptor scaled = allreduce_of(1);
    scaled.prescale = 0.5;
    Descriptor barrier;
    barrier.kind = Kind::barrier;
    const Descriptor sum = allreduce_of(1);
    const std::vector<Sequenced> sequence = {
        {0, &sum, 1, 0}, {1, &sum, 2, 0},     {2, &maximum, 3, 0}, {3, &scaled, 4, 0},
        {4, &sum, 5, 0}, {5, &barrier, 6, 0}, {6, &sum, 7, 0},     {7, &sum, 8, 7}};
    // The last was submitted after the end of the one before it had been seen.
    EXPECT_EQ(buckets_of(arrange(sequence, {1000, 1000})),
              (Buckets{{0, 1}, {2}, {3}, {4}, {5}, {6}, {7}}));
}

TEST(Plan, RunsAGroupInThePlaceOfItsLast) {
    Descriptor grouped = allreduce_of(1);
    grouped.group = "g";
    grouped.group_size = 3;
    Descriptor other = grouped;
    other.op = MPIB_MIN;
    const Descriptor sum = allreduce_of(1);
    const std::vector<Sequenced> sequence = {{0, &grouped, 1, 0},
                                             {1, &sum, 2, 0},
                                             {2, &other, 3, 0},
                                             {3, &grouped, 4, 0},
                                             {4, &sum, 5, 0}};
    const auto items = arrange(sequence, {1000, 1000});
    ASSERT_EQ(items.size(), 3U);
    EXPECT_EQ(buckets_of(items), (Buckets{{1}, {0}, {2}, {3}, {4}}));
    EXPECT_EQ(items[1].operations, 3U);
    EXPECT_EQ(items[1].groups.size(), 3U);
}

template <typename T>
T reduced_with_neutral(mpib_datatype datatype, mpib_op op, T value) {
    std::vector<T> neutral(1);
    fill_neutral(std::as_writable_bytes(std::span(neutral)), datatype, op);
    const Reduction* reduction = find_portable_reduction(datatype, op);
    std::vector<std::byte> accumulator(reduction->accumulator_bytes);
    reduction->load(accumulator.data(), &value, 1);
    reduction->add(accumulator.data(), neutral.data(), 1);
    T result{};
    reduction->store(&result, accumulator.data(), 1, 1);
    return result;
}

TEST(Neutral, ElementsChangeNothing) {
    for (const auto op : {MPIB_SUM, MPIB_AVERAGE, MPIB_MIN, MPIB_MAX, MPIB_PRODUCT}) {
        for (const double value : {-3.0, 0.0, 2.0, 100.0}) {
            EXPECT_EQ(reduced_with_neutral<double>(MPIB_FLOAT64, op, value), value) << op;
            EXPECT_EQ(reduced_with_neutral<float>(MPIB_FLOAT32, op, static_cast<float>(value)),
                      static_cast<float>(value));
            EXPECT_EQ(
                reduced_with_neutral<std::int8_t>(MPIB_INT8, op, static_cast<std::int8_t>(value)),
                static_cast<std::int8_t>(value));
            EXPECT_EQ(reduced_with_neutral<std::int64_t>(MPIB_INT64, op,
                                                         static_cast<std::int64_t>(value)),
                      static_cast<std::int64_t>(value));
        }
        // One, and minus two, as 16-bit floats.
        for (const auto half : {std::uint16_t{0x3c00}, std::uint16_t{0xc000}})
            EXPECT_EQ(reduced_with_neutral<std::uint16_t>(MPIB_FLOAT16, op, half), half) << op;
        for (const auto brain : {std::uint16_t{0x3f80}, std::uint16_t{0xc000}})
            EXPECT_EQ(reduced_with_neutral<std::uint16_t>(MPIB_BFLOAT16, op, brain), brain) << op;
    }
    for (const auto op : {MPIB_AND, MPIB_OR}) {
        EXPECT_EQ(reduced_with_neutral<std::uint8_t>(MPIB_UINT8, op, 0x5a), 0x5a);
        for (const auto truth : {std::uint8_t{0}, std::uint8_t{1}})
            EXPECT_EQ(reduced_with_neutral<std::uint8_t>(MPIB_BOOL, op, truth), truth);
    }
}

// Whoever of the ranks is bad, and however many are.
TEST(StatusElement, DiffersFromGoodWhenAnyRankIsBad) {
    for (int datatype = MPIB_UINT8; datatype <= MPIB_BOOL; ++datatype) {
        for (int op = MPIB_SUM; op <= MPIB_OR; ++op) {
            const auto type = static_cast<mpib_datatype>(datatype);
            const Reduction* reduction = find_portable_reduction(type, static_cast<mpib_op>(op));
            if (reduction == nullptr) continue;
            for (const int ranks : {1, 2, 3, 16, 127}) {
                const auto status = status_element(type, static_cast<mpib_op>(op), ranks);
                for (const int bad : {0, 1, 2, ranks / 2, ranks - 1, ranks}) {
                    if (bad > ranks) continue;
                    std::vector<const void*> sources;
                    for (int rank = 0; rank < ranks; ++rank)
                        sources.push_back(rank < bad ? status.bad : status.good);
                    std::byte result[StatusElement::longest] = {};
                    reduction->combine(result, sources.data(), sources.size(), 1, ranks);
                    EXPECT_EQ(std::memcmp(result, status.good, reduction->element_bytes) == 0,
                              bad == 0)
                        << "datatype " << datatype << ", operation " << op << ", " << bad << " of "
                        << ranks;
                }
            }
        }
    }
}

TEST(Handle, IsNeverZeroAndRefusesWhatItIsNot) {
    EXPECT_NE((Handle{0, 0, 0}).pack(), 0);
    EXPECT_GT(
        (Handle{(1U << Handle::set_bits) - 1, RequestTable::most - 1, Handle::generations - 1})
            .pack(),
        0);
    const auto unpacked = Handle::unpack(Handle{3, 5, 7}.pack());
    ASSERT_TRUE(unpacked);
    EXPECT_EQ(unpacked->set, 3U);
    EXPECT_EQ(unpacked->index, 5U);
    EXPECT_EQ(unpacked->generation, 7U);
    EXPECT_FALSE(Handle::unpack(0));
    EXPECT_FALSE(Handle::unpack(-5));
    EXPECT_FALSE(Handle::unpack(mpib_handle{1} << Handle::index_bits));
}

TEST(Scratch, GrowsAndFallsBackOnOrdinaryMemory) {
    std::size_t left = 100;
    std::size_t held = 0;
    {
        Scratch scratch(
            [&](std::size_t bytes) {
                if (bytes > left) return Bytes();
                held += bytes;
                return Bytes(new std::byte[bytes], bytes);
            },
            [&](Bytes memory) {
                held -= memory.size();
                delete[] memory.data();
            });
        EXPECT_EQ(scratch.take(60).size(), 60U);
        EXPECT_EQ(held, 60U);
        EXPECT_EQ(scratch.take(10).size(), 10U);
        const Bytes large = scratch.take(200);
        EXPECT_EQ(held, 0U);
        std::memset(large.data(), 1, large.size());
    }
    EXPECT_EQ(held, 0U);
}

TEST(EngineSettings, ComeFromTheEnvironment) {
    std::map<std::string, std::string> variables;
    const Environment environment = [&](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    EXPECT_EQ(engine_settings(environment)->bucket_bytes, std::size_t{25} << 20);
    variables["HOROVOD_FUSION_THRESHOLD"] = "67108864";
    EXPECT_EQ(engine_settings(environment)->bucket_bytes, std::size_t{64} << 20);
    variables["MPI_BRIDGE_BUCKET_BYTES"] = "2M";
    variables["MPI_BRIDGE_FIRST_BUCKET_BYTES"] = "64K";
    EXPECT_EQ(engine_settings(environment)->bucket_bytes, std::size_t{2} << 20);
    EXPECT_EQ(engine_settings(environment)->first_bucket_bytes, std::size_t{64} << 10);
    variables["MPI_BRIDGE_BUCKET_BYTES"] = "many";
    const auto refused = engine_settings(environment);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("MPI_BRIDGE_BUCKET_BYTES=\"many\""), std::string::npos);
}

}  // namespace
