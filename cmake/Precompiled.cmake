# SPDX-License-Identifier: GPL-2.0-or-later
# Headers that most files of a part include, compiled once. Every file still includes what it uses:
# clang-tidy reads it without them, and -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds so.
#
# batchai_precompiled(NAME [PROGRAM] LIBRARIES lib … HEADERS header …): a target that only has
# these headers compiled, with the flags of a library's sources or, with PROGRAM, of a program's.
function(batchai_precompiled name)
  cmake_parse_arguments(ARG "PROGRAM" "" "LIBRARIES;HEADERS" ${ARGN})
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  if(ARG_PROGRAM)
    file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
    add_executable(${name} "${source}")
  else()
    file(CONFIGURE OUTPUT "${source}" CONTENT "// Only for the headers.\n")
    add_library(${name} STATIC "${source}")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} batchai_warnings)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  # ccache follows a precompiled header only where the preprocessor names it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# batchai_use_precompiled(NAME target …)
function(batchai_use_precompiled name)
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${name})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)
    endif()
  endforeach()
endfunction()

# batchai_use_precompiled_below(NAME directory): for every static library of that directory and of
# those below it that uses none yet.
function(batchai_use_precompiled_below name directory)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(own ${target} PRECOMPILE_HEADERS)
    get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    if(type STREQUAL "STATIC_LIBRARY" AND NOT own AND NOT reused)
      batchai_use_precompiled(${name} ${target})
    endif()
  endforeach()
  get_property(subdirectories DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    batchai_use_precompiled_below(${name} "${subdirectory}")
  endforeach()
endfunction()
