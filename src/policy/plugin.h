/* policy/plugin.h -- conditions in libraries of a user's own. */
#ifndef RP_PLUGIN_H
#define RP_PLUGIN_H

#include "policy/condition.h"

/* What is done with each plug-in of a recipe; each writes its errors and notes into the report. */
typedef void rp_plugin_use(rp_condition *c, rp_report *report);
/* It is code that nobody has allowed: an error. */
void rp__plugin_refuse(rp_condition *c, rp_report *report);
/* Its file must be there. It is not opened, because opening a library runs code of it. */
void rp__plugin_look(rp_condition *c, rp_report *report);
/* Fill c->opened and c->plugin from c->library and c->symbol; what is not there is an error in the report. Opened already: nothing. */
void rp__plugin_open(rp_condition *c, rp_report *report);
void rp__plugin_close(rp_condition *c);

#endif
