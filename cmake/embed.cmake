# cmake -DOUT=FILE.c -DHEADER=inside.h -DPREFIX=rp__page_ -DFOLDER=PATH "-DNAMES=page.html page.css" -P cmake/embed.cmake
# Each file as the bytes of a constant, named PREFIX and the file's extension, with a terminating zero.
separate_arguments(NAMES)
set(text "/* Made by cmake/embed.cmake. */\n#include \"${HEADER}\"\n")
foreach(name IN LISTS NAMES)
  string(REGEX REPLACE ".*\\." "" extension ${name})
  file(READ ${FOLDER}/${name} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
  string(APPEND text "\nconst unsigned char ${PREFIX}${extension}[] = {\n${bytes}0\n};\n")
endforeach()
file(WRITE ${OUT} "${text}")
