/* text/file.h -- a text file, plain or packed with gzip or zstd, read from its beginning to its end.
 *
 *   file ─ 64 KiB ─▶ gzip 1f 8b │ zstd 28 b5 2f fd │ as it is ─▶ without its byte-order mark ─▶ UTF-8 ─ 64 KiB ─▶ bytes, lines
 *
 * Text is UTF-8. Every read checks it, so callers never see other bytes. A byte-order mark at the beginning is dropped. The first bytes of
 * the file select the unpacker, not its name. No text begins with the magic bytes of gzip or zstd. Consecutive gzip members or zstd frames
 * form one text, as their own programs treat them. Memory: the buffers above, one line, and the window that a zstd frame declares (128 MiB
 * at most).
 */
#ifndef RP_TEXT_FILE_H
#define RP_TEXT_FILE_H

#include "base/base.h"

typedef struct rp_text_file rp_text_file;

/* Open a file. errors RP_ERR_CONFIG the file cannot be opened · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__text_file_open(rp_ctx *ctx, const char *path, rp_text_file **out);
/* Read standard input from its current position. Closing leaves it open. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__text_file_stdin(rp_ctx *ctx, rp_text_file **out);
void rp__text_file_close(rp_text_file *file);

/* Check that the file looks like text. Call it before the first read. It examines the first 64 KiB; packed files always pass.
 * errors  RP_ERR_FORMAT a known other kind of file (the message names it), or a zero byte, which text never has */
rp_status rp__text_file_check(const rp_text_file *file);

/* Does the file have no text (a byte-order mark does not count)? Call it before the first read. errors as rp__text_file_read */
rp_status rp__text_file_empty(rp_text_file *file, bool *empty);
/* Read up to `room` bytes; *n is 0 only at the end.
 * errors  RP_ERR_FORMAT not UTF-8 (with the offset of the first bad byte), or packed data cut short or damaged (with the byte of the file)
 *         · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__text_file_read(rp_text_file *file, char *to, int64_t room, int64_t *n);
/* Return the next line with its newline; the last line may lack it. The line is borrowed until the next call. *line is NULL at the end.
 * errors  as rp__text_file_read */
rp_status rp__text_file_line(rp_text_file *file, const char **line, int64_t *bytes);

#endif
