// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/schema/faults.hpp"
#include "job/syntax/diagnostic.hpp"

namespace batchai::job {

enum class NodeType : std::uint8_t { null, boolean, integer, real, string, array, object, broken };

struct Member;

// A JSON value and its position, which for an object or array is that of its opening bracket.
// `broken` is a value whose fault has already been reported.
struct Node {
    NodeType type = NodeType::broken;
    Position position;
    bool boolean = false;
    std::string text;  // a string's characters, escapes resolved; a number as written
    std::vector<Node> items;
    std::vector<Member> members;
};

struct Member {
    std::string key;
    Position position;      // of the key
    bool repeated = false;  // the key was given before in the same object
    Node value;
};

struct Tree {
    std::optional<Node> root;
    // False if reading ended early: a value that is not in the tree may still be in the file.
    bool complete = true;
};

// Reads JSON text. Only valid JSON passes without a fault, but reading goes on as far as possible:
// comments, trailing or missing commas, wrong quotes and the like are reported and skipped.
[[nodiscard]] Tree read_tree(std::string_view text, Faults& faults);

}  // namespace batchai::job
