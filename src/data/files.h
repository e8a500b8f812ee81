/* data/files.h -- expands the path of a dataset to a list of files.
 *
 *   a file                    the file itself, even if its name contains brackets or stars
 *   a folder                  all files below it with an extension of the format (formats.def), with or without .gz or .zst after it
 *   data/part-*.txt           a glob in one folder
 *   data/(two stars)/x*.txt   a glob in all folders below: a component of two stars matches any number of folders, including zero
 *   a list                    any of these; the order of the list is kept
 *
 * The files of a folder or a glob are sorted bytewise by path. Hidden files and folders (names that begin with a dot) are skipped,
 * unless a glob of one folder spells out the dot. Symbolic links are followed, also to folders, except links that lead to a parent folder.
 */
#ifndef RP_DATA_FILES_H
#define RP_DATA_FILES_H

#include "data/data.h"

typedef struct {
    rp_ctx *ctx;
    char **path;
    int64_t n, room;
    int64_t bytes;                      /* total size of the files on disk; compressed files count with their compressed size */
} rp_data_files;

/* List the files of the config. `key` is the recipe key, for messages; NULL: messages name no key. Call rp__data_files_free on `out` even if this fails.
 * errors  RP_ERR_MATCH no file matches · RP_ERR_CONFIG a file cannot be opened · RP_ERR_IO a folder cannot be read · RP_ERR_MEMORY */
rp_status rp__data_files(rp_ctx *ctx, const char *key, const rp_data_config *config, rp_data_files *out);
void rp__data_files_free(rp_data_files *files);

#endif
