/* cli/hub/download.h -- a model from the hub into a folder. */
#ifndef CLI_HUB_DOWNLOAD_H
#define CLI_HUB_DOWNLOAD_H

#include "cli/cli.h"

typedef struct {
    const char *repo, *revision;                /* "owner/name" or "name"; "main" */
    const char *file;                           /* this file alone; NULL: what a model needs */
    const char *folder;                         /* made where it is not there */
    const char *endpoint, *token;               /* without a slash at its end; NULL: none */
    int64_t retries;
    double wait_seconds;
} cli_download;

/* Tells what is done on stderr, and the folder (or the file) on stdout at the end. The exit code. */
int cli_download_run(cli *c, const cli_download *order);

#endif
