// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "node/bundle/inject_elf.hpp"

// Which of the node's libraries an image needs for libmpi_bridge to work there: a value, made of
// what both have.
namespace batchai::node {

struct NodeObject {
    std::string path;
    ElfObject elf;
};

// What the node could bring. All names are those under which objects need libraries.
struct NodeObjects {
    std::vector<NodeObject> essential;        // libmpi_bridge and mpi_bridge_wireup
    std::vector<NodeObject> ucx_modules;      // loaded by libucs where they can be
    std::vector<NodeObject> pmix_components;  // the same by libpmix
    std::map<std::string, NodeObject> libraries;
};

// The image's library of a name, as its loader would find it; null when it has none.
using ImageLibrary = std::function<const ElfObject*(const std::string& name)>;

inline constexpr const char* pmix_name = "libpmix.so.2";

struct InjectionChoice {
    // Why nothing can be brought: "the image has … , … needs …". Empty: something can.
    std::string refusal;
    std::vector<std::string> libraries;  // names, of NodeObjects::libraries
    bool pmix_of_image = false;          // else libpmix and what it loads come from the node
};

// The image's own libpmix is used where there is one: its MPI libraries use it too, and a process
// can have only one. Of other libraries the image's own are used if they have versions that tell
// that they are new enough; else the node's. Nothing of the C library is brought: if the image's is
// older than what the node's objects need, that is the refusal.
[[nodiscard]] InjectionChoice choose_injection(const NodeObjects& node, const ImageLibrary& image);

}  // namespace batchai::node
