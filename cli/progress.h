/* cli/progress.h -- the step just done, for people: a bar on a terminal, plain lines otherwise. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdio.h>

#include "base/base.h"

typedef struct {
    FILE *to;
    bool terminal;                      /* one line redrawn, else a line for each step */
    int64_t n_steps;                    /* of the whole run */
    int columns;                        /* of the terminal; 0: 80 */
    bool shown;                         /* set by cli_progress_step */
} cli_progress;

/* Show the step just done. `seconds_left` < 0: not known. */
void cli_progress_step(cli_progress *progress, const rp_metrics *line, double seconds_left);
/* Leave the redrawn line, if there is one. Call it before anything else is written to the terminal. */
void cli_progress_break(cli_progress *progress);

#endif
