/* base/file.h -- files: mapped for reading, replaced atomically when written; folders created and removed.
 *
 * A file that is written appears under its name only when all its bytes are on the disk:
 *
 *   rp__file_create   "model.bin.1234-0.tmp" in the same folder
 *   rp__file_put …    a short write or a full disk is an error of that call
 *   rp__file_commit   fsync, rename to "model.bin", fsync of the folder
 *
 * A writer that fails or is discarded removes its temporary file and leaves any old file unchanged. An existing path that is not a regular
 * file (/dev/stdout, a pipe) is written in place, from the first byte to the last.
 * Errors of the system are RP_ERR_IO, or RP_ERR_MEMORY for ENOMEM: "cannot open 'x': No such file or directory".
 */
#ifndef RP_FILE_H
#define RP_FILE_H

#include "base/base.h"

/* Records "cannot VERB 'PATH': No such file or directory" from errno. Returns RP_ERR_MEMORY for ENOMEM, else RP_ERR_IO. */
rp_status rp__io_fail(rp_ctx *ctx, const char *verb, const char *path);

/* ---- reading ---- */

#define RP_FILE_WINDOW_BYTES (INT64_C(8) << 20)      /* readers of long files drop pages that they passed by this much */

typedef struct {
    const uint8_t *data;        /* never NULL, even for an empty file */
    int64_t bytes;
    bool mapped;                /* false: the bytes are not mapped by us (an empty file, memory of a caller) */
    int fd;                     /* of a mapped file */
    uint8_t *head;              /* memory of rp__file_head; its first head_bytes are valid */
    int64_t head_bytes;
} rp_file_map;

/* Maps a regular file read-only. If another process truncates the file, or the disk disappears, reading `data` raises SIGBUS, as with every
 * mapping. So large data, and data read later, is read with rp__file_get.
 * errors RP_ERR_IO absent, unreadable or not a regular file · RP_ERR_MEMORY */
rp_status rp__file_map(rp_ctx *ctx, const char *path, rp_file_map *out);
/* Copies these bytes of the file to `to`. errors RP_ERR_IO the file has become shorter, or cannot be read */
rp_status rp__file_get(rp_ctx *ctx, const char *path, const rp_file_map *map, int64_t offset, int64_t bytes, void *to);
void rp__file_unmap(rp_file_map *map);
/* Sets *head to a copy of the first bytes of the file, at least `upto` of them. The address stays the same until the file is unmapped, even if a
 * later call asks for more. Bytes are read, not mapped. errors as rp__file_get · RP_ERR_MEMORY */
rp_status rp__file_head(rp_ctx *ctx, const char *path, rp_file_map *map, int64_t upto, const uint8_t **head);
/* Where a reader found an object: the name of the file, its map, and the offset of the first byte. */
typedef struct { const char *path; const rp_file_map *map; int64_t offset; } rp_file_place;

/* Releases the pages of these bytes from resident memory; a later read fetches them again. Pages shared with neighbouring bytes are released too. */
void rp__file_drop(const rp_file_map *map, int64_t offset, int64_t bytes);

/* Reads a whole small file and appends a zero byte; a byte-order mark at its start is removed. *text is yours to rp__release.
 * errors  RP_ERR_FORMAT longer than cap_bytes · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__file_read(rp_ctx *ctx, const char *path, int64_t cap_bytes, char **text, int64_t *bytes);

/* ---- reading in place ----
 *
 * A file's pages are mapped read-only for as long as tensors read them. They are shared with other processes, and the system may evict them.
 *
 * Reading a page that the file has no longer raises SIGBUS. While any file is open here, this process has a handler of SIGBUS. It puts pages of zeros in
 * the place of the lost ones and marks the file, so that the reader continues and the next check fails. Any other SIGBUS goes to the handler that was there
 * before. That one is restored when the last file is closed. A handler that the program installs meanwhile must call ours, and ours then stays. Threads
 * that read the bytes must not block SIGBUS. */

typedef struct rp_file_pages rp_file_pages;

/* Maps the file that `map` has open. A file that the context has mapped before is shared.
 * owner   yours: rp__file_pages_unref
 * errors  RP_ERR_IO the file is cut or cannot be mapped · RP_ERR_UNSUPPORTED too many files are mapped in this process · RP_ERR_MEMORY */
rp_status rp__file_pages_open(rp_ctx *ctx, const char *path, const rp_file_map *map, rp_file_pages **out);
rp_file_pages *rp__file_pages_ref(rp_file_pages *pages);
void rp__file_pages_unref(rp_file_pages *pages);    /* NULL is fine */
const uint8_t *rp__file_pages_at(const rp_file_pages *pages, int64_t offset);

/* Are all files that the context has mapped as they were? An error stays until the file is closed. errors RP_ERR_IO */
rp_status rp__file_pages_check(rp_ctx *ctx);
/* For the end of a function that read mapped bytes: the error of the check, or else `status`. */
rp_status rp__file_pages_after(rp_ctx *ctx, rp_status status);

/* ---- writing. errors, unless listed: RP_ERR_IO · RP_ERR_MEMORY ---- */

typedef struct rp_file_writer rp_file_writer;

rp_status rp__file_create(rp_ctx *ctx, const char *path, rp_file_writer **out);
/* put appends after the furthest byte written so far; put_at writes at an offset. */
rp_status rp__file_put(rp_file_writer *writer, const void *data, int64_t bytes);
rp_status rp__file_put_at(rp_file_writer *writer, int64_t offset, const void *data, int64_t bytes);
/* fsync and close; the file gets its name with commit. For callers that commit several files together and would keep many open. */
rp_status rp__file_sync(rp_file_writer *writer);
/* Gives the file its name. Frees the writer, even on an error. */
rp_status rp__file_commit(rp_file_writer *writer);
void rp__file_discard(rp_file_writer *writer);      /* NULL is fine */

/* Writes all bytes to a descriptor, also if signals interrupt it. Returns false if that fails; errno has the reason. */
bool rp__write_all(int fd, const void *data, int64_t bytes);

/* create, put, commit */
rp_status rp__file_write(rp_ctx *ctx, const char *path, const void *data, int64_t bytes);

/* ---- names and folders. errors, unless listed: RP_ERR_IO · RP_ERR_MEMORY ---- */

bool rp__file_exists(const char *path);
bool rp__file_is_dir(const char *path);
/* `folder`/`name`, or `name` alone if it is absolute or the folder is ""; yours to rp__release, NULL if memory ran out. */
char *rp__path_join(rp_ctx *ctx, const char *folder, const char *name);
/* Creates the folder and its parents. Existing folders are fine. errors RP_ERR_EXISTS a file has the name of one · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__make_dirs(rp_ctx *ctx, const char *path);
/* Renames the folder `aside`, whose files are already on the disk, to `name` in one step and removes an older `name`. Both must be in the same
 * folder. */
rp_status rp__dir_commit(rp_ctx *ctx, const char *aside, const char *name);
/* Removes the folder after a failure and returns `status`. The error message in the context stays the same. */
rp_status rp__dir_discard(rp_ctx *ctx, const char *aside, rp_status status);
/* Locks the folder for this caller until rp__dir_unlock, or until the process ends for any reason, so a stale lock cannot remain. The lock is on
 * the folder itself, or on a file ".lock" in it if the file system locks only writable files (NFS). If the file system supports no locks at all,
 * the call succeeds without one. errors RP_ERR_EXISTS another process holds the lock · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__dir_lock(rp_ctx *ctx, const char *path, int *lock);
void rp__dir_unlock(int lock);                      /* below 0 is fine */
/* Removes temporary files of `name` in a folder that killed writers left. The folder may be absent. */
rp_status rp__file_tidy(rp_ctx *ctx, const char *folder, const char *name);
/* Syncs the folder, so that files created, renamed and removed in it are on the disk. */
rp_status rp__dir_sync(rp_ctx *ctx, const char *path);
/* The same for the folder that contains `path`: a name that was created or changed there must reach the disk, too. */
rp_status rp__dir_sync_of(rp_ctx *ctx, const char *path);
/* Removes a file, or a folder with its contents. Links are removed, not followed. An absent path is fine. */
rp_status rp__remove_tree(rp_ctx *ctx, const char *path);

#endif
