# labels.cmake -- reads the labels of a test from its own file: one line `/* ctest: WORD ... */` (in scripts `# ctest: WORD ...`). A word is a
# label below, or ranks=2,3 (also runs as jobs of so many ranks of each MPI), or cost=SECONDS (a long test that must begin early).
# `cmake -P labels.cmake FILE ...` checks these files alone.
cmake_minimum_required(VERSION 3.22)
set(RP_TEST_LABELS
    device-free     # The device that runs the ops makes no difference, and no kernel level does.
    level-free      # The kernel level makes no difference, or the test goes through all levels itself.
    thread-free     # Starts no thread. thread_free.c checks this; ThreadSanitizer skips the test.
    threads         # A case of the program that starts threads. ThreadSanitizer runs only these cases.
    watched         # `make check` also runs it under AddressSanitizer (preset watch).
    long            # `make check` skips it.
    emu             # The full suite also runs it on the emulated GPU, as NAME_emu, and its jobs of two ranks.
    slow-emulated   # Takes minutes on the emulated GPU, opens one itself, or asks for bits of the host's updates. Variant emu skips it.
    few             # Some cases of a long test, for `make check`: the full suite runs the long test instead.
    repository      # Checks the source tree rather than a build.
    program         # Runs the program. Variant sim skips it, because references compute other numbers.
    host-memory     # Depends on where the host's own memory lies. Variant sealed skips it.
    no-emulator     # Takes minutes under an emulator of another CPU, or needs more than 2 GiB of addresses. Variant arm skips it.
    many-ranks      # A job of more than two ranks.
)

# Sets RP_LABELS, RP_COST and RP_RANKS for the caller; each is empty if the file does not set it.
function(rp_read_labels source)
  set(labels "")
  set(cost "")
  set(ranks "")
  file(STRINGS ${source} lines REGEX "ctest:")
  list(LENGTH lines n)
  if(n GREATER 1)
    message(FATAL_ERROR "${source}: ${n} lines of labels, expected one")
  endif()
  if(n EQUAL 1)
    if(lines MATCHES "^/\\* ctest: ([a-z0-9=, -]+) \\*/$")
      string(REPLACE " " ";" words "${CMAKE_MATCH_1}")
    elseif(lines MATCHES "^# ctest: ([a-z0-9=, -]+)$")
      string(REPLACE " " ";" words "${CMAKE_MATCH_1}")
    else()
      message(FATAL_ERROR "${source}: a line of labels is '/* ctest: WORD ... */' or '# ctest: WORD ...', not '${lines}'")
    endif()
    foreach(word IN LISTS words)
      if(word IN_LIST RP_TEST_LABELS)
        list(APPEND labels ${word})
      elseif(word MATCHES "^cost=([0-9]+)$")
        set(cost ${CMAKE_MATCH_1})
      elseif(word MATCHES "^ranks=([0-9]+(,[0-9]+)*)$")
        string(REPLACE "," ";" ranks "${CMAKE_MATCH_1}")
      else()
        message(FATAL_ERROR "${source}: unknown label '${word}'; tests/labels.cmake lists them")
      endif()
    endforeach()
  endif()
  if(NOT CMAKE_SCRIPT_MODE_FILE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})      # an edit of the line is seen by the next build
  endif()
  set(RP_LABELS "${labels}" PARENT_SCOPE)
  set(RP_COST "${cost}" PARENT_SCOPE)
  set(RP_RANKS "${ranks}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  foreach(i RANGE 3 ${CMAKE_ARGC})
    if(i LESS CMAKE_ARGC)
      rp_read_labels(${CMAKE_ARGV${i}})
    endif()
  endforeach()
endif()
