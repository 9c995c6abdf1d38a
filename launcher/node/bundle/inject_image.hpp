// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>

#include "node/beneath.hpp"
#include "node/bundle/inject_elf.hpp"

namespace batchai::node {

// The libraries that an image has, found as its own loader would, and read but once.
class ImageLibraries {
  public:
    // `library_path` is LD_LIBRARY_PATH of its programs. Where `user` has an RPATH, that comes
    // first; libraries for other processors than its own are passed over.
    ImageLibraries(const Root& root, const std::string& library_path, const ElfObject& user);

    // Null when it has none of the name. Valid as long as this object.
    [[nodiscard]] const ElfObject* find(const std::string& name);

  private:
    [[nodiscard]] std::optional<ElfObject> look_for(const std::string& name) const;

    const Root& root_;
    std::string search_path_;
    unsigned int machine_;
    std::multimap<std::string, std::string> cache_;
    std::map<std::string, std::optional<ElfObject>> known_;
};

}  // namespace batchai::node
