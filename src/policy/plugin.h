/* policy/plugin.h -- conditions in shared libraries provided by the user. */
#ifndef RP_PLUGIN_H
#define RP_PLUGIN_H

#include "policy/condition.h"

/* A function that is called for each plug-in of a recipe; it writes errors and notes to the report. */
typedef void rp_plugin_use(rp_condition *c, rp_report *report);
/* Report an error: plug-ins are code, and the user has not allowed them. */
void rp__plugin_refuse(rp_condition *c, rp_report *report);
/* Check that its file exists. The library is not opened, because opening it runs its code. */
void rp__plugin_look(rp_condition *c, rp_report *report);
/* Set c->opened and c->plugin from c->library and c->symbol. A missing one is an error in the report. Does nothing if it is open. */
void rp__plugin_open(rp_condition *c, rp_report *report);
void rp__plugin_close(rp_condition *c);

#endif
