# SPDX-License-Identifier: GPL-2.0-or-later
# One interface target that every target of ours links: warnings are errors, and the sanitizers
# when they are asked for.
add_library(batchai_warnings INTERFACE)
target_compile_options(
  batchai_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            # In a unity build, a local name need not differ from those of other files.
            -Wshadow$<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:=local>
            -Wnon-virtual-dtor
            -Wold-style-cast
            -Wcast-align
            -Woverloaded-virtual
            -Wconversion
            -Wsign-conversion
            -Wnull-dereference
            -Wformat=2
            -Wno-missing-field-initializers # designated initialisers leave out what has a default
            -Werror)
# GCC 12 reports false positives of these in optimised standard-library code.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(batchai_warnings INTERFACE -Wno-maybe-uninitialized -Wno-null-dereference
                                                    -Wno-restrict -Wno-array-bounds)
endif()
target_compile_definitions(batchai_warnings INTERFACE _GNU_SOURCE)

if(BATCHAI_SANITIZE)
  target_compile_options(batchai_warnings INTERFACE -fsanitize=${BATCHAI_SANITIZE}
                                                    -fno-omit-frame-pointer
                                                    -fno-sanitize-recover=all)
  target_link_options(batchai_warnings INTERFACE -fsanitize=${BATCHAI_SANITIZE})
  # Compilers warn that ThreadSanitizer does not follow fences; nothing here relies on them alone.
  if(BATCHAI_SANITIZE MATCHES "thread")
    target_compile_options(batchai_warnings INTERFACE -Wno-tsan)
  endif()
else()
  target_compile_options(batchai_warnings INTERFACE -fstack-protector-strong)
  target_link_options(batchai_warnings INTERFACE -Wl,-z,relro,-z,now)
endif()
