/* cli/notes.c -- shared memory between the launcher and its ranks, independent of mpirun.
 *
 *      reprise train CONFIG --nproc 2           creates the notes and holds a lock on them while it lives
 *        └─ mpirun                              only passes on the variable CLI_NOTES
 *             ├─ rank 0   ┐
 *             └─ rank 1   ┴ map the notes: they read the signal to stop there, and write their process id and exit code
 *
 * The notes are a memory file without a name. Ranks open it as /proc/LAUNCHER/fd/N. If the launcher is killed, the kernel releases its lock.
 */
#include "cli/launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 0x52704e31 };

static size_t size_for(int ranks) { return sizeof(cli_notes) + (size_t)ranks * sizeof(cli_note); }

static cli_notes *map(int file, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    return at == MAP_FAILED ? NULL : at;
}

static struct flock whole(short type) { return (struct flock){ .l_type = type, .l_whence = SEEK_SET }; }

cli_notes *cli_notes_make(int ranks, int *file)
{
    struct flock lock = whole(F_WRLCK);
    cli_notes *notes  = NULL;

    *file = memfd_create("notes", MFD_CLOEXEC);
    if (*file < 0) return NULL;
    if (!ftruncate(*file, (off_t)size_for(ranks)) && !fcntl(*file, F_SETLK, &lock)) notes = map(*file, size_for(ranks));
    if (!notes) {
        close(*file);
        return NULL;
    }
    notes->ranks = ranks;
    notes->magic = MAGIC;
    return notes;
}

void cli_notes_drop(cli_notes *notes, int file)
{
    if (!notes) return;
    munmap(notes, size_for(notes->ranks));
    close(file);
}

/* ---- at a rank ---- */

static cli_notes *joined;
static int joined_file = -1;

static bool open_notes(const char *path, int rank)
{
    struct stat is;

    joined_file = open(path, O_RDWR | O_CLOEXEC);
    if (joined_file < 0) return false;
    if (!fstat(joined_file, &is) && S_ISREG(is.st_mode) && (size_t)is.st_size >= size_for(rank + 1)) joined = map(joined_file, (size_t)is.st_size);
    if (joined && joined->magic == MAGIC && rank < joined->ranks && size_for(joined->ranks) == (size_t)is.st_size) return true;
    if (joined) munmap(joined, (size_t)is.st_size);
    close(joined_file);
    joined      = NULL;
    joined_file = -1;
    return false;
}

cli_notes *cli_notes_join(int rank)
{
    const char *path = getenv(CLI_NOTES);

    if (joined || !path || rank < 0 || !open_notes(path, rank)) return joined;
    joined->rank[rank] = (cli_note){ .process = getpid() };
    return joined;
}

bool cli_notes_are_left(void)
{
    struct flock lock = whole(F_WRLCK);

    return joined && !fcntl(joined_file, F_GETLK, &lock) && lock.l_type == F_UNLCK;
}
