// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <fstream>
#include <string>

#include <unistd.h>

namespace batchai::test {

// Whether a test that starts rclone is to be skipped: there is none, and this release has no
// package of it. Debian 12 and 13 have all that tests need, so the test runs there, and fails.
inline bool release_lacks_rclone() {
    if (access("/usr/bin/rclone", X_OK) == 0) return false;
    std::ifstream release("/etc/os-release");
    for (std::string line; std::getline(release, line);) {
        if (line == "VERSION_CODENAME=bookworm" || line == "VERSION_CODENAME=trixie") return false;
    }
    return true;
}

}  // namespace batchai::test
