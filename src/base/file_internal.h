/* base/file_internal.h -- what file.c and folder.c share. */
#ifndef RP_BASE_FILE_INTERNAL_H
#define RP_BASE_FILE_INTERNAL_H

#include "base/file.h"

/* "cannot open 'x': No such file or directory", by errno. */
rp_status rp__io_fail(rp_ctx *ctx, const char *verb, const char *path);

#endif
