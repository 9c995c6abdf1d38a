/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the C library has only since a release that is newer than all else in the bundle
 * needs. Where the C library has them, its own are found first or do the same.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Since glibc 2.36; Debian 12's libevent uses them. */
__attribute__((visibility("default"))) void arc4random_buf(void* buffer, size_t size);
__attribute__((visibility("default"))) uint32_t arc4random(void);

void arc4random_buf(void* buffer, size_t size) {
    unsigned char* next = buffer;
    while (size > 0) {
        /* getentropy gives at most 256 bytes, and all or none of them. */
        const size_t part = size < 256 ? size : 256;
        /* These functions cannot fail: callers take whatever is there for random. */
        if (getentropy(next, part) != 0) abort();
        next += part;
        size -= part;
    }
}

uint32_t arc4random(void) {
    uint32_t number = 0;
    arc4random_buf(&number, sizeof number);
    return number;
}
