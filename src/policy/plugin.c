/* policy/plugin.c -- opens a library, finds a function in it, and reads the arguments of a plug-in. */
#include "policy/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/report.h"
#include "base/yaml.h"

/* Returns the reason that dlopen gives, without the path it starts with. */
static const char *reason(const char *library)
{
    const char *text = dlerror();
    size_t n         = strlen(library);

    if (!text) return "no reason given";
    return !strncmp(text, library, n) && !strncmp(text + n, ": ", 2) ? text + n + 2 : text;
}

void rp__plugin_refuse(rp_condition *c, rp_report *report)
{
    rp__report_error(report, c->place, "the plug-in '%s' runs code, and plug-ins are not allowed: '--allow-plugins' allows them "
                     "(in C rp_recipe_allow_plugins)", c->library);
}

void rp__plugin_look(rp_condition *c, rp_report *report)
{
    struct stat file;

    if (stat(c->library, &file))
        rp__report_error(report, c->place, "cannot open the library '%s' for '%s': %s", c->library, c->symbol, strerror(errno));
    else if (!S_ISREG(file.st_mode))
        rp__report_error(report, c->place, "cannot open the library '%s' for '%s': it is no file", c->library, c->symbol);
    else rp__report_note(report, c->place, "the plug-in '%s' is not run here, so the choices of '%s' are unknown", c->library, c->symbol);
}

void rp__plugin_open(rp_condition *c, rp_report *report)
{
    if (c->opened) return;
    void *library = dlopen(c->library, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        rp__report_error(report, c->place, "cannot open the library '%s' for '%s': %s", c->library, c->symbol, reason(c->library));
        return;
    }
    void *found = dlsym(library, c->symbol);
    if (!found) {
        rp__report_error(report, c->place, "the library '%s' has no function '%s'", c->library, c->symbol);
        dlclose(library);
        return;
    }
    memcpy(&c->plugin, &found, sizeof found);        /* C cannot convert an object pointer to a function pointer */
    c->opened = library;
}

void rp__plugin_close(rp_condition *c)
{
    if (c->opened) dlclose(c->opened);
    c->opened = NULL;
    c->plugin = NULL;
}

static const rp_yaml_node *plugin_find(const rp_args *args, const char *name) { return args ? rp__yaml_find(args->map, name) : NULL; }

int64_t rp_args_int(const rp_args *args, const char *name, int64_t fallback)
{
    const rp_yaml_node *node = plugin_find(args, name);

    if (node && !rp__yaml_int(node, INT64_MIN, INT64_MAX, &fallback) && node->kind == RP_YAML_SCALAR) rp__size_parse(node->text, &fallback);
    return fallback;
}

double rp_args_number(const rp_args *args, const char *name, double fallback)
{
    const rp_yaml_node *node = plugin_find(args, name);

    if (node) rp__yaml_number(node, &fallback);
    return fallback;
}

const char *rp_args_text(const rp_args *args, const char *name, const char *fallback)
{
    const rp_yaml_node *node = plugin_find(args, name);

    return node && rp__yaml_is_text(node) ? node->text : fallback;
}
