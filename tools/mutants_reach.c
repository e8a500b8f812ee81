/* tools/mutants_reach.c -- notes each basic block that a test runs. tools/mutants links it to the library, compiled with -fsanitize-coverage=trace-pc.
 *
 * The byte at a block's offset in the library is set in the file $REPRISE_REACH.LIBRARY. The file is a shared mapping: what is noted outlives a kill. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
extern char __ehdr_start[];
static const char *where;       /* a copy: tests clear the environment */
__attribute__((constructor)) static void keep_where(void)
{
    where = getenv("REPRISE_REACH");
    where = where ? strdup(where) : NULL;
}
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    static char *volatile seen;
    if (!seen) {
        char path[4096];
        if (!where) where = getenv("REPRISE_REACH");        /* another constructor runs first */
        int fd = -1;
        if (where && snprintf(path, sizeof path, "%s.%s", where, LIBRARY) > 0) fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0 && ftruncate(fd, 1 << 24)) _exit(99);
        seen = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE, fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
        if (fd >= 0) close(fd);
    }
    seen[(char *)__builtin_return_address(0) - __ehdr_start] = 1;
}
