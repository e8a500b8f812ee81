/* policy/plugin.h -- conditions in libraries of a user's own. */
#ifndef RP_PLUGIN_H
#define RP_PLUGIN_H

#include "policy/condition.h"

/* Fill c->opened and c->plugin from c->library and c->symbol; what is not there is an error in the report. Opened already: nothing. */
void rp__plugin_open(rp_condition *c, rp_report *report);
void rp__plugin_close(rp_condition *c);

#endif
