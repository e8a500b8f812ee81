# cmake -DOUT=FILE.c -DHEADER=inside.h -DPREFIX=rp__page_ -DFOLDER=PATH "-DNAMES=page.html page.css" -P cmake/embed.cmake
# Each file as the bytes of a constant, named PREFIX and the file's extension, with a terminating zero.
#
# With -DTABLE=name -DTYPE=struct -DUNDER=PATH, the constants are static, and `name` is an array of { path, bytes } with UNDER before each file's name.
# Its length is the constant -DCOUNT=name.
separate_arguments(NAMES)
set(text "/* Made by cmake/embed.cmake. */\n#include \"${HEADER}\"\n")
set(rows "")
set(n 0)
foreach(name IN LISTS NAMES)
  string(REGEX REPLACE ".*\\." "" extension ${name})
  file(READ ${FOLDER}/${name} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
  if(TABLE)
    string(APPEND text "\nstatic const unsigned char file_${n}[] = {\n${bytes}0\n};\n")
    string(APPEND rows "    { \"${UNDER}${name}\", (const char *)file_${n} },\n")
  else()
    string(APPEND text "\nconst unsigned char ${PREFIX}${extension}[] = {\n${bytes}0\n};\n")
  endif()
  math(EXPR n "${n} + 1")
endforeach()
if(TABLE)
  string(APPEND text "\nconst ${TYPE} ${TABLE}[] = {\n${rows}};\nconst int ${COUNT} = ${n};\n")
endif()
file(WRITE ${OUT} "${text}")
