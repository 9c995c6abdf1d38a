# SPDX-License-Identifier: GPL-2.0-or-later
# batchai_unit_test(NAME SOURCES a.cpp … LIBRARIES lib …): one GoogleTest program, one ctest entry
# labelled "unit". Needs neither root nor Slurm.
find_package(GTest REQUIRED)
find_package(tl-expected REQUIRED)

# Most of the time of a small test is its compiling, but for those that compute.
set(BATCHAI_TEST_OPTIONS -O0)

# batchai_test_headers(NAME option …): what tests include, compiled once with these options.
function(batchai_test_headers name)
  batchai_precompiled(
    ${name}
    PROGRAM
    LIBRARIES
    GTest::gmock
    tl::expected
    HEADERS
    <algorithm>
    <array>
    <chrono>
    <cstring>
    <filesystem>
    <fstream>
    <functional>
    <map>
    <memory>
    <optional>
    <string>
    <string_view>
    <thread>
    <vector>
    <tl/expected.hpp>
    <gmock/gmock.h>
    <gtest/gtest.h>)
  target_compile_options(${name} PRIVATE ${ARGN})
endfunction()

function(batchai_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main
                                        batchai_warnings)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(name MATCHES "^mpi_bridge_")
    set(headers batchai_optimised_test_headers)
  else()
    set(headers batchai_test_headers)
    target_compile_options(${name} PRIVATE ${BATCHAI_TEST_OPTIONS})
  endif()
  # A build of a part alone has none.
  if(TARGET ${headers})
    batchai_use_precompiled(${headers} ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  # The longest take 45 s, and up to twenty times as long under a sanitizer or beside much else.
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 900)
endfunction()
