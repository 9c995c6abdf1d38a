// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/beneath.hpp"
#include "base/record.hpp"
#include "node/reply.hpp"
#include "plan/plan.hpp"

// The bundle is a directory with libmpi_bridge and everything that it needs beyond the C library,
// its Python packages, and the programs that check the wiring and the GPUs. `cmake --install` makes
// it (mpi_bridge/bundle). It is mounted read-only in a container, so that the image needs none of
// these.
namespace batchai::node {

// Paths of the bundle in a container. The layout is that of an installation, so that the packages
// find the library.
inline constexpr const char* bundle_root = "/opt/batchai";
inline constexpr const char* bundle_python = "/opt/batchai/lib/batchai/python";
inline constexpr const char* bundle_wire_up = "/opt/batchai/libexec/batchai/mpi_bridge_wireup";
inline constexpr const char* bundle_gpu_check = "/opt/batchai/libexec/batchai/mpi_bridge_gpus";
inline constexpr const char* bundle_link_check = "/opt/batchai/libexec/batchai/mpi_bridge_links";
inline constexpr const char* bundle_manifest = "/opt/batchai/manifest.json";
// In a container without the bundle, this file says why.
inline constexpr const char* no_bundle_note = "/opt/batchai/not-injected";

// A variable of the job. "0" means that the container does not get the bundle.
inline constexpr const char* inject_variable = "BATCHAI_INJECT";

// The contents of the bundle's manifest.json, which is one line.
struct BundleManifest {
    std::string glibc;  // the oldest release that can run the bundle: "2.34"
    std::string pmix;   // the version of its libpmix: "4.2.2rc2"
    int machine = 0;    // e_machine of its ELF objects
};

[[nodiscard]] base::Result<BundleManifest> parse_bundle_manifest(std::string_view text);

// Mounts the bundle in the image. Called by the process that makes the container, before it changes
// its root. A bundle that cannot be mounted does not fail the job: a note in the container and a
// line in the log say why.
void show_bundle(const plan::Plan& plan, const base::Root& image_root, const Trace& trace);

// Adds a PYTHONPATH to the job's variables, in which the bundle's packages follow the job's own
// PYTHONPATH or, if the job has none, that of the image. Adds nothing if there is no bundle. Called
// in the container.
void add_bundle_packages(const plan::Container& container,
                         std::vector<plan::Variable>& environment);

// A variable of the job. "0" means that its Pythons are not armed for `batchai job stacks`.
inline constexpr const char* stacks_variable = "BATCHAI_STACKS";

// Tells the plugin which directory comes first on the PYTHONPATH of tasks, so that each Python is
// armed for `batchai job stacks`. Tells nothing if there is no such directory, which the bundle
// has, or if the job does not want it. Called where the tasks run: in the container, or on the
// node.
void add_python_hook(bool in_container, std::vector<plan::Variable>& environment);

// A library of the image, and the version that is found in its bytes: "2.36", "5.0.7". The version
// is empty if none is found; `cut_off` then says whether the file is longer than what was read.
struct ImageLibrary {
    std::string path;
    std::string version;
    int machine = 0;
    bool cut_off = false;
};

// Finds the image's C library in the directories that loaders search.
[[nodiscard]] std::optional<ImageLibrary> find_c_library(const base::Root& image_root);

// Returns the paths of files with that name in the library cache that the image's ldconfig has
// written.
[[nodiscard]] std::vector<std::string> paths_in_loader_cache(const base::Root& image_root,
                                                             std::string_view name);

// Finds the libpmix that the image's own loader would find for its programs: in LD_LIBRARY_PATH, in
// /etc/ld.so.cache, or in the usual directories. Runs no program of the image for that.
[[nodiscard]] std::optional<ImageLibrary> find_pmix(const base::Root& image_root,
                                                    std::string_view library_path);

// Compares the first three numbers of two versions: "4.2.2rc2" is older than "4.10.0", and not
// older than "4.2.2". A version without numbers is older than every other.
[[nodiscard]] bool is_older(std::string_view left, std::string_view right);

// Returns one sentence that says why the image cannot run the bundle. Empty if it can.
[[nodiscard]] std::string why_unfit(const std::optional<ImageLibrary>& c_library,
                                    const BundleManifest& bundle);

}  // namespace batchai::node

template <>
struct batchai::base::RecordOf<batchai::node::BundleManifest> {
    using Manifest = batchai::node::BundleManifest;
    static constexpr auto fields(auto field) {
        return std::tuple{field("glibc", &Manifest::glibc), field("pmix", &Manifest::pmix),
                          field("machine", &Manifest::machine)};
    }
};
