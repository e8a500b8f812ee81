/* cli/hub/download.h -- download a model from the hub into a folder. */
#ifndef CLI_HUB_DOWNLOAD_H
#define CLI_HUB_DOWNLOAD_H

#include "cli/cli.h"

typedef struct {
    const char *repo, *revision;                /* "owner/name" or "name"; "main" */
    const char *file;                           /* only this file; NULL: all files that a model needs */
    const char *folder;                         /* created if it does not exist */
    const char *endpoint, *token;               /* endpoint: without a slash at its end; token: NULL for none */
    int64_t retries;
    double wait_seconds;
} cli_download;

/* Download. Prints progress on stderr and, at the end, the folder (or the file) on stdout. Returns the exit code. */
int cli_download_run(cli *c, const cli_download *order);

#endif
