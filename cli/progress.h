/* cli/progress.h -- the progress of a run: a bar on a terminal, else plain lines. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdio.h>

#include "base/base.h"

typedef struct {
    FILE *to;
    bool terminal;                      /* true: one line that is redrawn; false: a line for each step */
    int64_t n_steps;                    /* steps of the whole run */
    int columns;                        /* width of the terminal; 0: unknown, 80 is used */
    bool shown;                         /* set by cli_progress_step */
} cli_progress;

/* Show the last step. seconds_left < 0: unknown. */
void cli_progress_step(cli_progress *progress, const rp_metrics *line, double seconds_left);
/* End the redrawn line, if there is one. Call it before anything else is written to the terminal. */
void cli_progress_break(cli_progress *progress);

#endif
