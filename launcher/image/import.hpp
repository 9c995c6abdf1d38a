// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "image/command.hpp"
#include "image/credentials.hpp"
#include "image/progress.hpp"

// The content of the directory trees below was chosen by an image. The functions therefore never
// follow a link, and work with files of any mode.

namespace batchai::image {

// Gives the owner all permissions on directories and read permission on files, so that the tree can
// be packed and removed without privileges. `tick` is called every few hundred files.
[[nodiscard]] base::Result<void> make_readable(const std::string& path,
                                               const std::function<void()>& tick);

// Returns the size of all regular files together, in bytes.
[[nodiscard]] std::int64_t size_of_tree(const std::string& path);

struct ImportRequest {
    std::string image;     // as the user wrote it
    std::string digest;    // the digest that the source must have, see cache.hpp
    std::string source;    // for skopeo
    std::string root;      // the file to make; its directory exists and is ours
    bool for_all = false;  // everybody may read the file; else only its owner
    std::string token;     // unique to this import
    const Access& access;
};

// Imports an image: registry or archive -> copy (skopeo), whose digest is compared with the
// request's -> OCI layout (skopeo) -> root file system (umoci, as the user) -> squashfs
// (mksquashfs)
// -> named `root`. All of this happens in the directory ".import/<stem>.<token>" beside
// `root`, which is always removed afterwards, unless the process is killed. The content of an image
// can do no harm: none of it is run, links are never followed, device nodes and set-user-id bits
// are left out, and all files belong to root in the result.
[[nodiscard]] base::Result<void> import_image(const ImportRequest& request, const Watch& watch,
                                              const ShowProgress& show);

// Returns where the images of a cache directory are made.
[[nodiscard]] std::string directory_of_imports(const std::string& directory);

// Removes what killed imports have left there. `own_stem` is that of the image whose lease the
// caller holds, and `own_token` is that lease's token. Both are empty if it holds none.
void collect_leftovers(const std::string& import_directory, const std::string& own_stem,
                       const std::string& own_token);

// Refuses an import of `layers` bytes of layers if the file system of `directory` does not have the
// space that it needs while it runs. The message has both numbers.
[[nodiscard]] base::Result<void> check_space(const std::string& directory, std::int64_t layers,
                                             const std::string& image);

}  // namespace batchai::image
