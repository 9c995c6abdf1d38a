# SPDX-License-Identifier: GPL-2.0-or-later
# What site.lua may use and how much. The launcher (table_reader.cpp) and slurmctld
# (lua/job_submit.lua.in) read the same file, with different versions of Lua, so each name exists in
# Lua 5.1 and in all later versions. Not among them is what could get around the limits or reach
# outside: pcall catches the error of a limit, metatables have finalizers, and getmetatable("")
# gives the string library of the whole program.
set(BATCHAI_SITE_GLOBALS
    assert
    error
    ipairs
    next
    pairs
    rawequal
    rawget
    rawset
    select
    tonumber
    tostring
    type
    math
    string
    table)
# Functions of these libraries that site.lua does not have. The result of a file must not change from
# one run to the next, and in Lua 5.1 the random numbers are those of the whole process. The others
# exist in some versions only, and one call of them can take any time or memory.
set(BATCHAI_SITE_WITHHELD
    string.dump
    string.gfind
    string.pack
    string.packsize
    string.unpack
    table.move
    math.random
    math.randomseed)
set(BATCHAI_SITE_INSTRUCTIONS 10000000)
# The most steps of all calls of pattern functions together, as sandbox.lua counts them.
set(BATCHAI_SITE_PATTERN_STEPS 1000000000)
set(BATCHAI_SITE_MEBIBYTES 32)
set(BATCHAI_SITE_FILE_BYTES 1048576)

# The text of sandbox.lua, which says what it is for.
set(BATCHAI_SITE_SANDBOX "${CMAKE_CURRENT_LIST_DIR}/sandbox.lua")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${BATCHAI_SITE_SANDBOX}")
file(READ "${BATCHAI_SITE_SANDBOX}" BATCHAI_SITE_SANDBOX)

# The lists as C++ and Lua write them.
foreach(list BATCHAI_SITE_GLOBALS BATCHAI_SITE_WITHHELD)
  list(TRANSFORM ${list} REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE ${list}_QUOTED)
  list(JOIN ${list}_QUOTED ", " ${list}_QUOTED)
endforeach()
