// SPDX-License-Identifier: GPL-2.0-or-later
// Whoever runs a registry decides what it answers: manifests, lists of manifests, configurations of
// images, and the texts of errors that skopeo passes on.
#include <cstddef>
#include <cstdint>
#include <string>

#include "image/command.hpp"
#include "image/enroot.hpp"
#include "image/manifest.hpp"
#include "image/resolve.hpp"
#include "plan/plan.hpp"
#include "tests/fuzz/promise.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using batchai::fuzz::promise;
    namespace image = batchai::image;
    const std::string text(data, data + size);
    promise(image::layer_bytes(text) >= 0);
    static_cast<void>(image::instance_digest(text, "amd64"));
    promise(image::digest_of(text).size() == 71);
    static_cast<void>(image::lists_digest(text, "sha256:3"));
    static_cast<void>(image::why_not_an_image(text));
    static_cast<void>(image::read_start_script(text));
    for (const bool of_pam : {false, true}) {
        for (const std::string& entry : image::read_environment_file(text, of_pam))
            promise(entry.find('\n') == std::string::npos);
    }

    batchai::image::FrozenImage frozen;
    frozen.image = "registry.example/image:tag";
    if (image::read_config(text, frozen)) {
        for (const auto& variable : frozen.environment) {
            promise(!variable.name.empty() && variable.name.find('=') == std::string::npos);
        }
    }

    const auto error = image::explain(
        text, {.image = frozen.image, .registry = "registry.example", .credential_source = "none"});
    promise(!error.what.empty());
    static_cast<void>(image::last_message(text));
    return 0;
}
