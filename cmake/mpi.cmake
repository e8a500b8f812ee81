# The program is linked to no MPI. For each MPI whose compiler wrapper is found, src/comm/mpi/engine.c becomes a module beside the program,
# which loads it when a job of that MPI has started it.
#
#   RP_MPICC_openmpi, RP_MPICC_mpich         the wrappers, or -NOTFOUND; set them where they are not in PATH
#   RP_MPIRUN_openmpi, RP_MPIRUN_mpich       what starts jobs, for the tests
#   RP_MPI_MODULE_openmpi, RP_MPI_MODULE_mpich     the modules

# `mpicc` and `mpirun` are whichever MPI comes first: each is asked which it is.
function(rp_find_of_mpi variable answers flag)
  find_program(${variable} NAMES ${ARGN} DOC "of one MPI, whose name its answer to ${flag} holds")
  mark_as_advanced(${variable})
  if(${variable})
    execute_process(COMMAND ${${variable}} ${flag} OUTPUT_VARIABLE out ERROR_VARIABLE err)
    if(NOT "${out}${err}" MATCHES "${answers}")
      set(${variable} ${variable}-NOTFOUND CACHE FILEPATH "another MPI's" FORCE)
    endif()
  endif()
endfunction()

rp_find_of_mpi(RP_MPICC_openmpi "Open MPI" --showme:version mpicc.openmpi mpicc)
rp_find_of_mpi(RP_MPIRUN_openmpi "Open MPI|OpenRTE" --version mpirun.openmpi mpirun)
rp_find_of_mpi(RP_MPICC_mpich "MPICH|MVAPICH|Intel" -v mpicc.mpich mpicc)
rp_find_of_mpi(RP_MPIRUN_mpich "HYDRA|Intel" --version mpirun.mpich mpirun)

# With the system's compiler and without sanitizers in every build: what it does is call MPI.
set(RP_MODULE_HARDENED "")
if(RP_HARDENED)
  set(RP_MODULE_HARDENED -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
set(RP_ENGINE_SOURCE ${CMAKE_SOURCE_DIR}/src/comm/mpi/engine.c)
foreach(mpi openmpi mpich)
  if(NOT RP_WITH_MPI)
    set(RP_MPICC_${mpi} "")
  endif()
  if(NOT RP_MPICC_${mpi})
    message(STATUS "ranks: no module for ${mpi}")
    continue()
  endif()
  message(STATUS "ranks: reprise-${mpi}.so by ${RP_MPICC_${mpi}}")
  set(RP_MPI_MODULE_${mpi} ${CMAKE_BINARY_DIR}/reprise-${mpi}.so)
  add_custom_command(OUTPUT ${RP_MPI_MODULE_${mpi}}
    COMMAND ${RP_MPICC_${mpi}} -std=c11 -D_GNU_SOURCE -O2 $<IF:$<CONFIG:Release>,-s,-g> -Wall -Wextra -Wconversion -fPIC -shared ${RP_MODULE_HARDENED} -I${CMAKE_SOURCE_DIR}/src -o ${RP_MPI_MODULE_${mpi}} ${RP_ENGINE_SOURCE}
    DEPENDS ${RP_ENGINE_SOURCE} ${CMAKE_SOURCE_DIR}/src/comm/engine.h VERBATIM)
  add_custom_target(reprise_${mpi} ALL DEPENDS ${RP_MPI_MODULE_${mpi}})
  install(FILES ${RP_MPI_MODULE_${mpi}} DESTINATION ${CMAKE_INSTALL_LIBDIR}/reprise COMPONENT ${mpi})
endforeach()

# Where the library looks for them.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/comm/mpi.c PROPERTIES COMPILE_DEFINITIONS
  "RP_LIBRARY_FOLDER=\"${CMAKE_INSTALL_LIBDIR}\";RP_MODULE_FOLDER=\"${CMAKE_INSTALL_FULL_LIBDIR}/reprise\"")
