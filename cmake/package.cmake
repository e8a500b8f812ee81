# Debian packages, by CPack: `make deb` configures a build of its own with the prefix /usr and runs it. Dependencies are what dpkg-shlibdeps
# finds; those who start ranks add the package of their MPI.
#
#   reprise            the program            libreprise1      the library        libreprise-dev   to build against it
#   reprise-openmpi    ranks by Open MPI      reprise-mpich    ranks by MPICH
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME reprise)
set(CPACK_PACKAGE_VENDOR Reprise)
set(RP_MAINTAINER "Reprise <reprise@localhost>" CACHE STRING "who answers for the Debian packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT "${RP_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains transformers inside a memory budget")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(RP_ABOUT "Reprise trains and fine-tunes transformers: name a budget in bytes, and\nwhat a step would keep beyond it is computed again or put on the disk,\nby a plan that is exact to the byte.")
set(RP_PACKAGES "")
# component, package, section, what it is, what it needs that no library tells
function(rp_package component name section summary depends)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${RP_ABOUT}\n${summary}" PARENT_SCOPE)
  set(RP_PACKAGES ${RP_PACKAGES} ${component} PARENT_SCOPE)
  install(FILES ${CMAKE_SOURCE_DIR}/cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
  install(FILES ${CMAKE_BINARY_DIR}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endfunction()

find_program(RP_GZIP gzip)
file(WRITE ${CMAKE_BINARY_DIR}/changelog.Debian
  "reprise (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * What changed stands in CHANGELOG.md of the source.\n\n -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 1970 00:00:00 +0000\n")
execute_process(COMMAND ${RP_GZIP} -9nkf ${CMAKE_BINARY_DIR}/changelog.Debian)

set(RP_SAME "(= ${PROJECT_VERSION}-1)")
rp_package(program reprise science "This is the program." "")
rp_package(library libreprise${RP_SOVERSION} libs "This is the library, for programs that embed it." "")
rp_package(development libreprise-dev libdevel "These are the headers, and what pkg-config and CMake read." "libreprise${RP_SOVERSION} ${RP_SAME}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "reprise-openmpi | reprise-mpich")
# The package of an MPI's own programs, which start ranks.
set(RP_RUNS_openmpi openmpi-bin)
set(RP_RUNS_mpich mpich)
foreach(mpi openmpi mpich)
  if(RP_MPI_MODULE_${mpi})
    rp_package(${mpi} reprise-${mpi} science "This joins ranks by ${mpi}." "reprise ${RP_SAME}, ${RP_RUNS_${mpi}}")
  endif()
endforeach()
set(CPACK_COMPONENTS_ALL ${RP_PACKAGES})
include(CPack)
