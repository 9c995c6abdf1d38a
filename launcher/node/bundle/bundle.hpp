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

// The bundle: libmpi_bridge with all that it needs beyond the C library, its Python packages and
// the wire-up check, which `cmake --install` puts into one directory (mpi_bridge/bundle). A
// container shows it read-only, so that its image needs none of them.
namespace batchai::node {

// Where containers show it. The layout is that of an installation, so that the packages find the
// library.
inline constexpr const char* bundle_root = "/opt/batchai";
inline constexpr const char* bundle_python = "/opt/batchai/lib/batchai/python";
inline constexpr const char* bundle_wire_up = "/opt/batchai/libexec/batchai/mpi_bridge_wireup";
inline constexpr const char* bundle_manifest = "/opt/batchai/manifest.json";
// In a container that does not show the bundle, this file says why.
inline constexpr const char* no_bundle_note = "/opt/batchai/not-injected";

// One of the job's variables; "0" says that the job wants its image as it is.
inline constexpr const char* inject_variable = "BATCHAI_INJECT";

// manifest.json of the bundle, which is one line.
struct BundleManifest {
    std::string glibc;  // the oldest release that can run it: "2.34"
    std::string pmix;   // the version of its libpmix: "4.2.2rc2"
    int machine = 0;    // e_machine of its ELF objects
};

[[nodiscard]] base::Result<BundleManifest> parse_bundle_manifest(std::string_view text);

// Shows the bundle in the image. Called by the process that makes the container, before it changes
// its root. A bundle that cannot be shown is no fault of the job: a note in the container and a
// line in the log say why.
void show_bundle(const plan::Plan& plan, const base::Root& image_root, const Trace& trace);

// Called in the container. Adds to the job's variables a PYTHONPATH with the bundle's packages
// behind what the job, or else the image, has in it; adds nothing when there is no bundle.
void add_bundle_packages(const plan::Container& container,
                         std::vector<plan::Variable>& environment);

// A library of the image, and the version that its bytes tell: "2.36", "5.0.7". The version is
// empty when they tell none.
struct ImageLibrary {
    std::string path;
    std::string version;
    int machine = 0;
};

// The image's C library, in the directories where loaders look for it.
[[nodiscard]] std::optional<ImageLibrary> find_c_library(const base::Root& image_root);

// Files of that name in the list of libraries that the image's ldconfig has written.
[[nodiscard]] std::vector<std::string> paths_in_loader_cache(const base::Root& image_root,
                                                             std::string_view name);

// The libpmix that the image's own loader would find for its programs: in LD_LIBRARY_PATH, in what
// /etc/ld.so.cache lists, or in the usual directories. Nothing of the image is run for it.
[[nodiscard]] std::optional<ImageLibrary> find_pmix(const base::Root& image_root,
                                                    std::string_view library_path);

// Compares the first three numbers of two versions: "4.2.2rc2" is older than "4.10.0", and not
// older than "4.2.2". A version without numbers is older than every other.
[[nodiscard]] bool is_older(std::string_view left, std::string_view right);

// Why the image cannot run the bundle, in one sentence; empty when it can.
[[nodiscard]] std::string why_unfit(const std::optional<ImageLibrary>& c_library,
                                    const BundleManifest& bundle);

}  // namespace batchai::node

template <>
struct batchai::base::RecordOf<batchai::node::BundleManifest> {
    using Manifest = batchai::node::BundleManifest;
    static constexpr auto fields =
        std::tuple{field("glibc", &Manifest::glibc), field("pmix", &Manifest::pmix),
                   field("machine", &Manifest::machine)};
};
