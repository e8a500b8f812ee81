# What is installed, in the parts that become packages (cmake/package.cmake):
#
#   program       bin/reprise, recipes, man pages, completions
#   library       libreprise.so.N
#   development   headers, libreprise.so, what pkg-config and find_package(Reprise) read
#   openmpi mpich the modules that join ranks (cmake/mpi.cmake)

install(TARGETS reprise EXPORT RepriseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")
file(RELATIVE_PATH RP_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/reprise.pc.in reprise.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/reprise.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
include(CMakePackageConfigHelpers)
set(RP_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Reprise)
write_basic_package_version_file(RepriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/RepriseConfigVersion.cmake DESTINATION ${RP_CMAKE_DIR} COMPONENT development)
install(EXPORT RepriseTargets NAMESPACE Reprise:: FILE RepriseConfig.cmake DESTINATION ${RP_CMAKE_DIR} COMPONENT development)

if(NOT TARGET reprise_program)
  return()
endif()
install(TARGETS reprise_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(EXISTS ${CMAKE_SOURCE_DIR}/recipes)
  install(DIRECTORY recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise COMPONENT program FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json")
endif()

add_custom_target(installed DEPENDS reprise reprise_program)       # what a package needs of a build
foreach(mpi openmpi mpich)
  if(TARGET reprise_${mpi})
    add_dependencies(installed reprise_${mpi})
  endif()
endforeach()

# Man pages and completions are made from what the built program says of itself, so they cannot lag behind it. It must be able to run here.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING OR RP_SANITIZE)
  message(STATUS "man pages, completions: none, they are made by Python and the program itself")
  return()
endif()
set(RP_PAGES ${CMAKE_BINARY_DIR}/pages)
file(GLOB RP_PAGE_TOOLS CONFIGURE_DEPENDS tools/make_man tools/make_completions tools/program_help.py)
add_custom_command(OUTPUT ${RP_PAGES}/made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${RP_PAGES}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/make_man $<TARGET_FILE:reprise_program> ${RP_PAGES}/man
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/make_completions $<TARGET_FILE:reprise_program> ${RP_PAGES}/completions
  COMMAND ${CMAKE_COMMAND} -E touch ${RP_PAGES}/made
  DEPENDS reprise_program ${RP_PAGE_TOOLS} COMMENT "Making man pages and completions" VERBATIM)
add_custom_target(pages ALL DEPENDS ${RP_PAGES}/made)
add_dependencies(installed pages)
install(DIRECTORY ${RP_PAGES}/man.gz/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
install(FILES ${RP_PAGES}/completions/reprise.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME reprise COMPONENT program)
install(FILES ${RP_PAGES}/completions/_reprise DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
install(FILES ${RP_PAGES}/completions/reprise.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
