/* text/file.h -- a file of text read from its beginning to its end, whatever it is packed with.
 *
 *   file ─ 64 KiB ─▶ gzip 1f 8b │ zstd 28 b5 2f fd │ as it is ─▶ without its byte-order mark ─▶ UTF-8 ─ 64 KiB ─▶ bytes, lines
 *
 * Text is UTF-8. Every read checks it, so no reader of text can take other bytes. A byte-order mark at the beginning is dropped.
 * The first bytes decide, not the name; none of the packed kinds is text. Members and frames that follow each other are one text,
 * as their programs make them. Memory is what is above, a line, and what zstd was told to look back (128 MiB at most).
 */
#ifndef RP_TEXT_FILE_H
#define RP_TEXT_FILE_H

#include "base/base.h"

typedef struct rp_text_file rp_text_file;

/* errors  RP_ERR_CONFIG it cannot be opened · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__text_file_open(rp_ctx *ctx, const char *path, rp_text_file **out);
/* The standard input, from where it stands; closing leaves it open. */
rp_status rp__text_file_stdin(rp_ctx *ctx, rp_text_file **out);
void rp__text_file_close(rp_text_file *file);

/* Before the first read: does the file look like text? Told from its first 64 KiB, and only of a file that is not packed.
 * errors  RP_ERR_FORMAT another kind of file, named, or a zero byte, which no text has */
rp_status rp__text_file_check(const rp_text_file *file);

/* Before the first read: has it no text, but a byte-order mark? errors as of reading */
rp_status rp__text_file_empty(rp_text_file *file, bool *empty);
/* Read up to `room` bytes; *n is 0 at the end only.
 * errors  RP_ERR_FORMAT it is not UTF-8, with the offset of the first bad byte; or it is cut short or damaged, with the byte of the file · RP_ERR_IO */
rp_status rp__text_file_read(rp_text_file *file, char *to, int64_t room, int64_t *n);
/* The next line with its newline, which the last one may lack; borrowed until the next call. *line is NULL at the end. */
rp_status rp__text_file_line(rp_text_file *file, const char **line, int64_t *bytes);
/* Bytes of text read so far; a byte-order mark is not counted. */
int64_t rp__text_file_bytes(const rp_text_file *file);

#endif
