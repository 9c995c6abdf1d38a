# SPDX-License-Identifier: GPL-2.0-or-later
# Man pages and completion scripts, written by the program itself from its command tree, and the
# drop-in for the Azure CLI.
set(pages
    batchai
    batchai-group
    batchai-workspace
    batchai-experiment
    batchai-cluster
    batchai-file-server
    batchai-storage
    batchai-az
    batchai-list-usages
    batchai-usage
    batchai-login
    batchai-logout
    batchai-account
    batchai-configure
    batchai-provider
    batchai-job
    batchai-image
    batchai-sweep
    batchai-metrics
    batchai-config
    batchai-admin
    batchai-validate
    batchai-run
    batchai-version
    batchai-completion)
set(generated)
foreach(page ${pages})
  set(file "${CMAKE_CURRENT_BINARY_DIR}/man/${page}.1")
  add_custom_command(
    OUTPUT "${file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/man"
    COMMAND batchai man ${page} > "${file}"
    DEPENDS batchai
    VERBATIM)
  list(APPEND generated "${file}")
  install(FILES "${file}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endforeach()

# shell;file name;where its users look for it;the name that is completed. Those for az are where no
# shell looks: Debian's package azure-cli has the usual place. They do nothing where az is not a link
# to batchai.
foreach(
  entry
  "bash|batchai|bash-completion/completions|batchai"
  "zsh|_batchai|zsh/vendor-completions|batchai"
  "fish|batchai.fish|fish/vendor_completions.d|batchai"
  "bash|az.bash|batchai/completion|az"
  "zsh|_az|batchai/completion|az"
  "fish|az.fish|batchai/completion|az")
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 shell)
  list(GET entry 1 name)
  list(GET entry 2 directory)
  list(GET entry 3 program)
  set(file "${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}/${name}")
  add_custom_command(
    OUTPUT "${file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/completion/${shell}"
    COMMAND batchai completion ${shell} --name ${program} > "${file}"
    DEPENDS batchai
    VERBATIM)
  list(APPEND generated "${file}")
  install(FILES "${file}" DESTINATION "${CMAKE_INSTALL_DATADIR}/${directory}")
endforeach()
add_custom_target(batchai_generated ALL DEPENDS ${generated})

# Whoever wants `az batchai …` to come here puts this directory at the head of PATH.
set(drop_in "${CMAKE_CURRENT_BINARY_DIR}/az")
file(RELATIVE_PATH target "${BATCHAI_LIBEXECDIR}/az-drop-in"
     "${CMAKE_INSTALL_FULL_BINDIR}/batchai")
file(CREATE_LINK "${target}" "${drop_in}" SYMBOLIC)
install(FILES "${drop_in}" DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/batchai/az-drop-in")

# `module load batchai` does the same, where the admin adds the directory of modulefiles to
# MODULEPATH. Environment Modules and Lmod read it.
set(drop_in_directory "${CMAKE_INSTALL_FULL_LIBEXECDIR}/batchai/az-drop-in")
# Lmod would move a directory that is in PATH already to its front, and take it out with the module.
set(path_of_programs "prepend-path PATH \"${CMAKE_INSTALL_FULL_BINDIR}\"")
if(CMAKE_INSTALL_FULL_BINDIR STREQUAL "/usr/bin")
  set(path_of_programs "# The programs are in /usr/bin.")
endif()
configure_file("${PROJECT_SOURCE_DIR}/packaging/modulefile.in"
               "${CMAKE_CURRENT_BINARY_DIR}/modulefile" @ONLY)
install(
  FILES "${CMAKE_CURRENT_BINARY_DIR}/modulefile"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/batchai/modulefiles/batchai"
  RENAME "${PROJECT_VERSION}")
