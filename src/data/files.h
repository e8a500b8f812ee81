/* data/files.h -- the files that a dataset's path names.
 *
 *   a file                    itself, brackets and stars in its name or not
 *   a folder                  all files below it with an extension of the format (formats.def), packed by gzip or zstd or not
 *   data/part-*.txt           a glob of one folder
 *   data/(two stars)/x*.txt   a glob of all folders below: a component of two stars stands for any number of folders, none too
 *   a list                    of these; it keeps its order
 *
 * The files of a folder or a glob come in the bytewise order of their paths. Hidden files and folders, whose names begin with a dot, are left out
 * unless a glob of one folder names the dot. Links are followed, also to folders; one that leads back up is not.
 */
#ifndef RP_DATA_FILES_H
#define RP_DATA_FILES_H

#include "data/data.h"

typedef struct {
    rp_ctx *ctx;
    char **path;
    int64_t n, room;
    int64_t bytes;                      /* of all files together, packed ones as they are */
} rp_data_files;

/* Free the list whatever the status was.
 * errors  RP_ERR_MATCH nothing is there · RP_ERR_CONFIG a file cannot be looked at · RP_ERR_IO a folder cannot be read · RP_ERR_MEMORY */
rp_status rp__data_files(rp_ctx *ctx, const char *what, const rp_data_config *config, rp_data_files *out);
void rp__data_files_free(rp_data_files *files);

#endif
