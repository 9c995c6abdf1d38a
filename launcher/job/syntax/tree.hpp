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

// A JSON value and where it stands (an object or array: its opening bracket). `broken` stands for
// a value whose fault has been reported already.
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
    // False when reading stopped early: what is not in the tree may yet be in the file.
    bool complete = true;
};

// Reads JSON text, strictly in what it accepts without a fault and forgivingly in how far it gets:
// comments, trailing or missing commas, wrong quotes and the like are reported, then read over.
[[nodiscard]] Tree read_tree(std::string_view text, Faults& faults);

}  // namespace batchai::job
