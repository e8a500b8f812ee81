/* base/file.h -- files: mapped for reading, replaced whole when written, folders made and removed.
 *
 * A file that is written appears under its name only when all its bytes are on the disk:
 *
 *   rp__file_create   "model.bin.1234-0.tmp" in the same folder
 *   rp__file_put …    a short write or a full disk is an error of that call
 *   rp__file_commit   fsync, rename to "model.bin", fsync of the folder
 *
 * A writer that fails or is discarded leaves nothing behind and the old file, if there was one, as it was. What is there and no
 * file (/dev/stdout, a pipe) is written in place, from the first byte to the last.
 * Errors of the system are RP_ERR_IO: "cannot open 'x': No such file or directory".
 */
#ifndef RP_FILE_H
#define RP_FILE_H

#include "base/base.h"

/* ---- reading ---- */

#define RP_FILE_WINDOW_BYTES (INT64_C(8) << 20)      /* readers of long files let go of what is behind this much */

typedef struct {
    const uint8_t *data;        /* not NULL, an empty file's neither */
    int64_t bytes;
    bool mapped;                /* false: the bytes are not ours to unmap (an empty file, memory of a caller) */
    int fd;                     /* of a mapped one */
    uint8_t *head;              /* of rp__file_head; head_bytes of it are there */
    int64_t head_bytes;
} rp_file_map;

/* Map a regular file read-only. A file that another process cuts short, or a disk that is gone, kills who looks at `data` then (SIGBUS), as with
 * every mapping: what is large, or read later than at once, is read by rp__file_get.
 * errors RP_ERR_IO absent, unreadable or not a regular file */
rp_status rp__file_map(rp_ctx *ctx, const char *path, rp_file_map *out);
/* These bytes of it, copied. errors RP_ERR_IO the file has become shorter, or cannot be read */
rp_status rp__file_get(rp_ctx *ctx, const char *path, const rp_file_map *map, int64_t offset, int64_t bytes, void *to);
void rp__file_unmap(rp_file_map *map);
/* The first bytes of it, `upto` at least, as memory that stays where it is until the file is unmapped, however many more are asked for later; the
 * more are read, not mapped. errors as rp__file_get · RP_ERR_MEMORY */
rp_status rp__file_head(rp_ctx *ctx, const char *path, rp_file_map *map, int64_t upto, const uint8_t **head);
/* The pages of these bytes leave resident memory; reading them again fetches them again. Pages shared with neighbours go too. */
void rp__file_drop(const rp_file_map *map, int64_t offset, int64_t bytes);

/* A whole small file with a terminating zero after its bytes, without a byte-order mark before them; *text is yours to rp__release.
 * errors  RP_ERR_FORMAT longer than cap_bytes */
rp_status rp__file_read(rp_ctx *ctx, const char *path, int64_t cap_bytes, char **text, int64_t *bytes);

/* ---- writing ---- */

typedef struct rp_file_writer rp_file_writer;

rp_status rp__file_create(rp_ctx *ctx, const char *path, rp_file_writer **out);
/* Append after the furthest byte written so far / write at an offset. */
rp_status rp__file_put(rp_file_writer *writer, const void *data, int64_t bytes);
rp_status rp__file_put_at(rp_file_writer *writer, int64_t offset, const void *data, int64_t bytes);
/* fsync and close; the name comes with commit. For those who commit several files together and would hold many open. */
rp_status rp__file_sync(rp_file_writer *writer);
/* The file gets its name. The writer is gone afterwards, whatever the status. */
rp_status rp__file_commit(rp_file_writer *writer);
void rp__file_discard(rp_file_writer *writer);      /* NULL is fine */

/* create, put, commit */
rp_status rp__file_write(rp_ctx *ctx, const char *path, const void *data, int64_t bytes);

/* ---- names and folders ---- */

bool rp__file_exists(const char *path);
bool rp__file_is_dir(const char *path);
/* `folder`/`name`, or `name` alone where it is absolute or the folder is ""; yours to rp__release, NULL without memory. */
char *rp__path_join(rp_ctx *ctx, const char *folder, const char *name);
/* The folder and those above it. One that is there already is fine. errors RP_ERR_EXISTS a file has the name of one · RP_ERR_IO */
rp_status rp__make_dirs(rp_ctx *ctx, const char *path);
/* `aside`, a folder whose files are on the disk, becomes `name` by one rename; what had the name before is removed. Both stand
 * in one folder. */
rp_status rp__dir_commit(rp_ctx *ctx, const char *aside, const char *name);
/* What led to `status` is in the context; the folder is removed and status returned, the message as it was. */
rp_status rp__dir_discard(rp_ctx *ctx, const char *aside, rp_status status);
/* The folder is this caller's alone until rp__dir_unlock, or until the process has ended, however it did: nothing is left that could be stale. It
 * is the folder itself that is locked; where its file system locks only what can be written to (NFS), a file ".lock" in it stands for it. One
 * that locks nothing at all keeps nobody out. errors RP_ERR_EXISTS another has it · RP_ERR_IO */
rp_status rp__dir_lock(rp_ctx *ctx, const char *path, int *lock);
void rp__dir_unlock(int lock);                      /* below 0 is fine */
/* What writers that were killed have left of the file `name` in a folder: their files aside. The folder may be absent. */
rp_status rp__file_tidy(rp_ctx *ctx, const char *folder, const char *name);
/* What was made, renamed and removed in the folder is on the disk. */
rp_status rp__dir_sync(rp_ctx *ctx, const char *path);
/* The same of the folder that `path` is in: a name that was made or changed there has to reach the disk, too. */
rp_status rp__dir_sync_of(rp_ctx *ctx, const char *path);
/* A file, or a folder with all in it; links are removed, not followed. Absent is fine. */
rp_status rp__remove_tree(rp_ctx *ctx, const char *path);

#endif
