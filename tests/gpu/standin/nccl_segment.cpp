// SPDX-License-Identifier: Apache-2.0
#include "nccl_segment.hpp"

#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.hpp"

namespace standin {

std::string make_segment() {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/standin-nccl-XXXXXX";
    const int file = mkostemp(path.data(), O_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(Segment)) != 0) misuse("cannot write " + path);
    close(file);
    return path;
}

Segment* map_segment(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return nullptr;
    struct stat status {};
    void* memory = MAP_FAILED;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        status.st_size == static_cast<off_t>(sizeof(Segment))) {
        memory = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<Segment*>(memory);
}

void unmap_segment(Segment* segment) {
    munmap(segment, sizeof *segment);
}

}  // namespace standin
