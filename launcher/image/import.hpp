// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "image/command.hpp"
#include "image/credentials.hpp"
#include "image/progress.hpp"

// Directory trees whose content an image decided: no link is ever followed, modes may be anything.

namespace batchai::image {

// Gives the owner all rights on directories and the right to read on files, so that the tree can
// be packed and removed without privilege. `tick` is called now and then.
[[nodiscard]] base::Result<void> make_readable(const std::string& path,
                                               const std::function<void()>& tick);

// Removes it, whatever it is; no error when it is not there.
[[nodiscard]] base::Result<void> remove_tree(const std::string& path,
                                             const std::function<void()>& tick);

// The bytes of all files.
[[nodiscard]] std::int64_t size_of_tree(const std::string& path);

struct ImportRequest {
    std::string image;     // as the user wrote it
    std::string digest;    // what must come out
    std::string source;    // for skopeo
    std::string root;      // the file to make; its directory is there and is ours
    bool for_all = false;  // everybody may read it; else only its owner
    std::string token;     // names this import among all
    const Access& access;
};

// Registry or archive -> OCI layout (skopeo) -> root file system (umoci, as the user) -> squashfs
// (mksquashfs) -> renamed to `root`. Everything is made in a directory of its own beside `root`,
// ".import/<digits>.<token>", which is gone afterwards whatever happens, but for a kill. What an
// image may hold does no harm: nothing of it is run, links are never followed, device nodes and
// the set-user-id bits are left out, all files belong to root inside.
[[nodiscard]] base::Result<void> import_image(const ImportRequest& request, const Watch& watch,
                                              const ShowProgress& show);

// Removes what imports that were killed have left in the directory ".import"; `own_digits` is the
// image whose lease the caller has, under `own_token`.
void collect_leftovers(const std::string& import_directory, const std::string& own_digits,
                       const std::string& own_token);

// The bytes of an image's layers in its manifest; none when the manifest is a list of others.
[[nodiscard]] std::int64_t layer_bytes(const std::string& manifest);

// The digest in a list of manifests (several architectures in one image) that is for this machine;
// empty when it is no list, or has none.
[[nodiscard]] std::string instance_digest(const std::string& manifest,
                                          const std::string& architecture);

// Refuses when the file system of `directory` has not the room that an import of so many bytes of
// layers takes while it runs; with both numbers.
[[nodiscard]] base::Result<void> check_space(const std::string& directory, std::int64_t layers,
                                             const std::string& image);

}  // namespace batchai::image
