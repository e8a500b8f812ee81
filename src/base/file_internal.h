/* base/file_internal.h -- declarations shared by file.c and folder.c. */
#ifndef RP_BASE_FILE_INTERNAL_H
#define RP_BASE_FILE_INTERNAL_H

#include "base/file.h"

/* Records "cannot VERB 'PATH': No such file or directory" from errno. Returns RP_ERR_MEMORY for ENOMEM, else RP_ERR_IO. */
rp_status rp__io_fail(rp_ctx *ctx, const char *verb, const char *path);

#endif
