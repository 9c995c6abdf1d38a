// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::base {

namespace {

using namespace std::string_view_literals;
using ::testing::HasSubstr;

enum class Colouring { plain, striped };

struct Wheel {
    int spokes = 8;
    std::optional<Time> mended = std::nullopt;

    bool operator==(const Wheel&) const = default;
};

struct Cart {
    std::string name;
    bool covered = false;
    std::chrono::minutes trip{0};
    Colouring colouring = Colouring::plain;
    std::vector<Wheel> wheels;
    std::map<std::string, std::string> labels;
    std::optional<Wheel> spare;
    std::int64_t load = 0;

    bool operator==(const Cart&) const = default;
};

Cart loaded_cart() {
    Cart cart;
    cart.name = "Zürich \"1\"";
    cart.covered = true;
    cart.trip = std::chrono::minutes(90);
    cart.colouring = Colouring::striped;
    cart.wheels = {Wheel{.spokes = 12, .mended = from_iso8601("2018-06-21T17:15:18")}, Wheel{}};
    cart.labels = {{"owner", "alice"}};
    cart.spare = Wheel{.spokes = 6};
    cart.load = std::int64_t{1} << 40;
    return cart;
}

}  // namespace

template <>
struct WordsOf<Colouring> {
    static constexpr std::array words{std::pair{"plain"sv, Colouring::plain},
                                      std::pair{"striped"sv, Colouring::striped}};
};

template <>
struct RecordOf<Wheel> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("spokes", &Wheel::spokes).within(3, 99),
                          field("mended", &Wheel::mended)};
    }
};

template <>
struct RecordOf<Cart> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("name", &Cart::name),
                          field("covered", &Cart::covered),
                          field("tripMinutes", &Cart::trip).within(0),
                          field("colouring", &Cart::colouring),
                          field("wheels", &Cart::wheels),
                          field("labels", &Cart::labels),
                          field("spare", &Cart::spare),
                          field("load", &Cart::load).or_missing()};
    }
};

namespace {

constexpr std::string_view schema = "cart/v1";

std::string fault_of(const std::string& text) {
    const auto read = from_record<Cart>(text, schema, {}, UnknownKeys::refused);
    return read ? "no fault" : read.error().what;
}

// The record of loaded_cart() with `from` replaced by `to`.
std::string changed(std::string_view from, std::string_view to) {
    std::string text = to_record(loaded_cart(), schema);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Record, IsReadAsItWasWritten) {
    const std::string text = to_record(loaded_cart(), schema);
    const auto read = from_record<Cart>(text, schema, {}, UnknownKeys::refused);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, loaded_cart());
    EXPECT_EQ(to_record(*read, schema), text);
}

TEST(Record, NamesThePlaceAndTheFault) {
    EXPECT_EQ(fault_of(changed("\"covered\": true", "\"covered\": 1")),
              "\"covered\" is not true or false");
    EXPECT_EQ(fault_of(changed("\"spokes\": 8", "\"spokes\": 2")),
              "\"wheels[1].spokes\" is not an integer of at least 3");
    EXPECT_EQ(fault_of(changed("\"spokes\": 12", "\"spokes\": 100")),
              "\"wheels[0].spokes\" is not an integer up to 99");
    EXPECT_EQ(fault_of(changed("striped", "dotted")),
              "\"colouring\" has the unknown value \"dotted\"");
    EXPECT_EQ(fault_of(changed("2018-06-21T17:15:18.000000+00:00", "yesterday")),
              "\"wheels[0].mended\" is not a time");
    EXPECT_EQ(fault_of(changed("\"owner\": \"alice\"", "\"owner\": 7")),
              "\"labels.owner\" is not a string");
    EXPECT_EQ(fault_of(changed("\"name\"", "\"nam\"")), "\"name\" is missing");
    EXPECT_EQ(fault_of(changed("\"load\"", "\"loud\"")), "\"loud\" is not known");
    EXPECT_EQ(fault_of(changed("cart/v1", "cart/v2")),
              "\"schema\" is \"cart/v2\", this program reads \"cart/v1\"");
    EXPECT_THAT(fault_of("{\"schema\": \"cart/v1\","), HasSubstr("at 1:"));
    EXPECT_EQ(fault_of("[]"), "the record is not an object");
}

TEST(Record, MayPassUnknownKeysOverAndLackNewOnes) {
    const auto read = from_record<Cart>(changed("\"load\"", "\"loud\""), schema);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->load, 0);
}

TEST(Record, RefusesNumbersThatDoNotFitTheMember) {
    EXPECT_THAT(fault_of(changed("\"spokes\": 8", "\"spokes\": 4294967304")),
                HasSubstr("wheels[1].spokes"));
    EXPECT_THAT(fault_of(changed("\"spokes\": 8", "\"spokes\": 8.5")), HasSubstr("not an integer"));
}

TEST(Json, LimitsTheDepthOfNesting) {
    EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']'), "t"));
    EXPECT_FALSE(parse_json(std::string(100000, '['), "t"));
}

Result<int> half_of(int number) {
    if (number % 2 != 0) return fail("odd");
    return number / 2;
}

Result<void> nothing_if(bool good) {
    if (!good) return fail("bad");
    return {};
}

Result<int> quarter_of(int number, bool good) {
    TRY(nothing_if(good));
    const int half = TRY(half_of(number));
    return TRY(half_of(half));
}

TEST(Try, GivesTheValueOrReturnsTheError) {
    EXPECT_EQ(quarter_of(12, true).value(), 3);
    EXPECT_EQ(quarter_of(6, true).error().what, "odd");
    EXPECT_EQ(quarter_of(12, false).error().what, "bad");
}

}  // namespace

}  // namespace batchai::base
