# SPDX-License-Identifier: GPL-2.0-or-later
# batchai_unit_test(NAME SOURCES a.cpp … LIBRARIES lib …): one GoogleTest program, one ctest entry
# labelled "unit". Needs neither root nor Slurm.
find_package(GTest REQUIRED)

function(batchai_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main
                                        batchai_warnings)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
