// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>

#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;

constexpr int size = 3;

struct Difference {
    const char* name;
    std::function<void(Floats&)> make;  // what rank 1 does differently
    const char* aspect;
    const char* usual;
    const char* different;
};

template <typename Case>
std::string name_of(const testing::TestParamInfo<Case>& of) {
    return of.param.name;
}

void expect_mismatch(const mpi_bridge::Done& done, const Difference& difference) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().status, MPIB_ERROR_MISMATCH) << done.error().text;
    const std::string& text = done.error().text;
    const std::string usual = std::string(difference.usual) + " on ranks 0, 2";
    const std::string different = std::string(difference.different) + " on rank 1";
    for (const std::string& part :
         {std::string("\"grad/w\""), std::string(difference.aspect), usual, different})
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

class Disagreement : public testing::TestWithParam<Difference> {};

std::unique_ptr<Floats> tensor_of(int rank, const Difference* difference) {
    auto tensor = std::make_unique<Floats>("grad/w", std::vector<float>{1, 2, 3, 4, 5, 6});
    tensor->shape = {2, 3};
    if (rank == 1 && difference != nullptr) difference->make(*tensor);
    return tensor;
}

void expect_works(Ranks::Rank& rank) {
    const auto tensor = tensor_of(rank.rank(), nullptr);
    const auto done = rank.engine().call(tensor->made());
    ASSERT_TRUE(done) << done.error().text;
    ASSERT_EQ(tensor->recv, (std::vector<float>{3, 6, 9, 12, 15, 18}));
}

// The first time the name is used, while it is negotiated, and when it is part of a plan.
TEST_P(Disagreement, IsToldToEveryRankAndEndsNothingElse) {
    for (const int steps_before : {0, 1, 6}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps_before; ++step)
                expect_works(rank);
            Floats other("other", {1});
            const auto other_handle = submit(rank.engine(), other.made());
            const auto tensor = tensor_of(rank.rank(), &GetParam());
            expect_mismatch(rank.engine().call(tensor->made()), GetParam());
            ASSERT_TRUE(finish(rank.engine(), other_handle));
            ASSERT_EQ(other.recv[0], size);
            for (int step = 0; step < 6; ++step)
                expect_works(rank);
        });
        EXPECT_TRUE(ranks.at(0).failures().empty());
    }
}

const Difference differences[] = {
    Difference{"Shape",
               [](Floats& t) {
                   t.shape = {3, 2};
               },
               "shape", "[2, 3]", "[3, 2]"},
    Difference{"Dimensions", [](Floats& t) { t.shape = {6}; }, "shape", "[2, 3]", "[6]"},
    Difference{"Kind", [](Floats& t) { t.operation.kind = MPIB_ALLGATHER; }, "kind of operation",
               "allreduce", "allgather"},
    Difference{"Datatype", [](Floats& t) { t.operation.datatype = MPIB_INT32; }, "datatype",
               "float32", "int32"},
    Difference{"Operation", [](Floats& t) { t.operation.op = MPIB_MAX; }, "reduction", "sum",
               "max"},
    Difference{"Prescale", [](Floats& t) { t.operation.prescale = 0.5; }, "prescale factor", "1",
               "0.5"},
    Difference{"Postscale", [](Floats& t) { t.operation.postscale = 0.25; }, "postscale factor",
               "1", "0.25"},
    Difference{"Group",
               [](Floats& t) {
                   t.operation.group = "g";
                   t.operation.group_size = 1;
               },
               "group", "none", "\"g\" of 1"}};

INSTANTIATE_TEST_SUITE_P(Engine, Disagreement, testing::ValuesIn(differences), name_of<Difference>);

TEST(EngineDisagreement, NamesBothRootsOfABroadcast) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        Floats tensor("weights", {1, 2});
        tensor.operation.kind = MPIB_BROADCAST;
        tensor.operation.root = rank.rank();
        const auto done = rank.engine().call(tensor.made());
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().status, MPIB_ERROR_MISMATCH);
        EXPECT_NE(done.error().text.find("root rank: 0 on rank 0, 1 on rank 1"), std::string::npos)
            << done.error().text;
    });
}

// Breaks when the rest of a group waits for ever for the operation that cannot run.
TEST(EngineDisagreement, OfOneOperationEndsItsWholeGroup) {
    for (const int steps_before : {0, 1, 6}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            // Submits three operations, the second with a length of its own where `differs`.
            const auto step = [&](bool differs, bool apart) {
                const std::size_t length = differs ? 2 + static_cast<std::size_t>(rank.rank()) : 2;
                Floats first("g/0", {1});
                Floats second("g/1", std::vector<float>(length, 1));
                Floats third("g/2", {1});
                std::vector<mpib_handle> handles;
                for (Floats* tensor : {&first, &second, &third}) {
                    (void)tensor->made();
                    tensor->operation.group = "g";
                    tensor->operation.group_size = 3;
                    // Rounds may come between them.
                    if (apart && tensor == &third) {
                        Floats other("other", {1});
                        ASSERT_TRUE(rank.engine().call(other.made()));
                    }
                    handles.push_back(submit(rank.engine(), tensor->operation));
                }
                for (const auto handle : handles) {
                    const auto done = finish(rank.engine(), handle);
                    ASSERT_EQ(done.has_value(), !differs);
                    if (done) continue;
                    EXPECT_EQ(done.error().status, MPIB_ERROR_MISMATCH);
                    EXPECT_NE(done.error().text.find("\"g/1\""), std::string::npos)
                        << done.error().text;
                }
            };
            for (int i = 0; i < steps_before; ++i)
                step(false, false);
            for (const bool apart : {false, true}) {
                step(true, apart);
                for (int i = 0; i < 6; ++i)
                    step(false, apart);
            }
        });
        EXPECT_TRUE(ranks.at(0).failures().empty());
    }
}

TEST(EngineDisagreement, ANameThatAllUseForSomethingElseIsAgreedOnAnew) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 20; ++step) {
            // The last batch of every epoch is shorter.
            const std::size_t length = step % 7 == 6 ? 3 : 8;
            Floats tensor("batch", std::vector<float>(length, 1));
            const auto done = rank.engine().call(tensor.made());
            ASSERT_TRUE(done) << done.error().text;
            ASSERT_EQ(tensor.recv, std::vector<float>(length, 2));
        }
    });
}

struct Fault {
    const char* name;
    std::function<void(mpib_operation&)> make;
    const char* text;
};
class RefusedOperation : public testing::TestWithParam<Fault> {};

TEST_P(RefusedOperation, IsAnsweredOnThisRankAlone) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        if (rank.rank() == 1) {
            Floats wrong("wrong", {1, 2});
            (void)wrong.made();
            GetParam().make(wrong.operation);
            const auto handle = rank.engine().submit(wrong.operation);
            ASSERT_FALSE(handle);
            EXPECT_EQ(handle.error().status, MPIB_ERROR_INVALID_ARGUMENT);
            EXPECT_NE(handle.error().text.find(GetParam().text), std::string::npos)
                << handle.error().text;
        }
        Floats right("right", {1});
        ASSERT_TRUE(rank.engine().call(right.made()));
    });
}

const std::int64_t negative_shape[] = {-1};
const std::int64_t huge_shape[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
const std::int64_t short_splits[] = {1, 0};

const Fault faults[] = {
    Fault{"OtherStruct", [](mpib_operation& o) { o.struct_bytes = 8; }, "struct_bytes"},
    Fault{"UnknownKind",
          [](mpib_operation& o) {
              constexpr int unknown = MPIB_KIND_COUNT;
              std::memcpy(&o.kind, &unknown, sizeof o.kind);
          },
          "kind 8 is unknown"},
    Fault{"UnknownSet", [](mpib_operation& o) { o.process_set = 7; }, "process set 7 is unknown"},
    Fault{"NoSend", [](mpib_operation& o) { o.send = nullptr; }, "send is NULL"},
    Fault{"NoRecv", [](mpib_operation& o) { o.recv = nullptr; }, "recv is NULL"},
    Fault{"NoShape", [](mpib_operation& o) { o.shape = nullptr; }, "shape is NULL"},
    Fault{"NegativeLength", [](mpib_operation& o) { o.shape = negative_shape; },
          "dimension 0 is -1"},
    Fault{"TooLarge",
          [](mpib_operation& o) {
              o.shape = huge_shape;
              o.dimensions = 2;
          },
          "larger than memory"},
    Fault{"AndOfFloats", [](mpib_operation& o) { o.op = MPIB_AND; }, "MPIB_AND"},
    Fault{"RootOutside",
          [](mpib_operation& o) {
              o.kind = MPIB_BROADCAST;
              o.root = 2;
          },
          "root 2"},
    Fault{"ShortSplits",
          [](mpib_operation& o) {
              o.kind = MPIB_ALLTOALL;
              o.splits = short_splits;
          },
          "splits add up to 1 of 2 rows"},
    Fault{"ReduceOfDeviceMemory",
          [](mpib_operation& o) {
              o.kind = MPIB_REDUCE;
              o.flags = MPIB_DEVICE;
          },
          "reduce of device memory is not supported yet"},
    Fault{"UnalignedDeviceMemory",
          [](mpib_operation& o) {
              o.flags = MPIB_DEVICE;
              o.recv = static_cast<std::byte*>(o.recv) + 1;
          },
          "device memory is not aligned"},
    Fault{"EmptyName", [](mpib_operation& o) { o.name = ""; }, "name is empty"}};

INSTANTIATE_TEST_SUITE_P(Engine, RefusedOperation, testing::ValuesIn(faults), name_of<Fault>);

TEST(EngineHandles, AreRefusedWhenUnknownOrReleased) {
    Ranks ranks(1);
    auto& engine = ranks.at(0).engine();
    Floats tensor("x", {1});
    const auto handle = submit(engine, tensor.made());
    EXPECT_NE(handle, 0);
    ASSERT_TRUE(engine.wait(handle, 0));
    EXPECT_EQ(engine.poll(handle), true);
    ASSERT_TRUE(engine.release(handle));
    EXPECT_EQ(engine.poll(handle), std::nullopt);
    EXPECT_FALSE(engine.release(handle));
    EXPECT_FALSE(engine.wait(handle, 0));
    EXPECT_FALSE(engine.result(handle));
    for (const mpib_handle other : {mpib_handle{0}, mpib_handle{-1}, mpib_handle{1} << 40,
                                    std::numeric_limits<mpib_handle>::max()})
        EXPECT_EQ(engine.poll(other), std::nullopt);
}

TEST(EngineHandles, ANameIsInUseUntilItIsReleased) {
    Ranks ranks(1);
    auto& engine = ranks.at(0).engine();
    Floats tensor("x", {1});
    const auto handle = submit(engine, tensor.made());
    ASSERT_TRUE(engine.wait(handle, 0));
    const auto again = engine.submit(tensor.made());
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(again.error().text.find("in use"), std::string::npos);
    ASSERT_TRUE(engine.release(handle));
    EXPECT_TRUE(engine.call(tensor.made()));
}

}  // namespace
