/* cli/options.c -- reads argv by a table of options, and prints the table as help. */
#include "cli/cli.h"

#include <ctype.h>

typedef struct {
    cli *c;
    const cli_command *command;
    int argc, next;
    char **argv;
    void *fields;
} parser;

static int usage_error(const cli *c)
{
    fprintf(stderr, "try 'reprise %s --help'\n", c->command);
    return CLI_USAGE;
}

/* ---- help ---- */

static void print_option(const cli_option *o)
{
    char left[64], letter[8] = "    ";

    if (!o->help) return;
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->kind == CLI_FLAG ? "" : " ",
             o->kind == CLI_FLAG ? "" : o->value);
    printf("  %-28s %s\n", left, o->help);
}

/* Options of every command with `sizes` and with `plugins`. Their fields are in the cli, not in the fields of the command. */
static const cli_option shared[] = {
    { "bytes", 0, CLI_FLAG, offsetof(cli, bytes), NULL, "print exact sizes, in bytes", 0, 0 },
    { "allow-plugins", 0, CLI_FLAG, offsetof(cli, allow_plugins), NULL, "load the plug-in libraries that the recipe names; they run code", 0, 0 },
};

/* Option i of a command; NULL past the last. */
static const cli_option *option_at(const cli_command *command, int i)
{
    const bool takes[] = { command->sizes, command->plugins };

    if (i < command->n_options) return &command->option[i];
    i -= command->n_options;
    for (int k = 0; k < RP_COUNT(shared); k++)
        if (takes[k] && !i--) return &shared[k];
    return NULL;
}

static void print_help(const parser *p)
{
    const char *gap = p->command->usage[0] ? " " : "";

    printf("usage: reprise %s%s%s\n\n%s\n\n", p->c->command, gap, p->command->usage, p->command->about);
    for (int i = 0; option_at(p->command, i); i++) print_option(option_at(p->command, i));
    print_option(&(cli_option){ .name = "help", .letter = 'h', .help = "print this" });
    printf("\nexample: %s\n", p->command->example);
}

/* ---- one option ---- */

static int wrong_value(const parser *p, const cli_option *o, const char *shown, const char *value)
{
    const char *kind = o->kind == CLI_INT ? "whole number" : "number";

    if (o->low == 0 && o->high == 0) cli_say(p->c, "option '%s' wants a %s, not '%s'", shown, kind, value);
    else cli_say(p->c, "option '%s' wants a %s from %.17g to %.17g, not '%s'", shown, kind, o->low, o->high, value);
    return usage_error(p->c);
}

static int set_option(parser *p, const cli_option *o, const char *shown, const char *value)
{
    void *field = (o >= shared && o < shared + RP_COUNT(shared) ? (char *)p->c : (char *)p->fields) + o->offset;
    bool any    = o->low == 0 && o->high == 0;
    double number;

    if (o->kind == CLI_FLAG) {
        *(bool *)field = true;
    } else if (o->kind == CLI_TEXT) {
        *(const char **)field = value;
    } else if (o->kind == CLI_INT) {
        if (!rp__parse_int(value, any ? INT64_MIN : (int64_t)o->low, any ? INT64_MAX : (int64_t)o->high, field))
            return wrong_value(p, o, shown, value);
    } else {
        if (!rp__parse_double(value, &number) || !(any || (number >= o->low && number <= o->high)))
            return wrong_value(p, o, shown, value);
        *(double *)field = number;
    }
    return CLI_GO;
}

/* The option with that name, or the only one that begins with it; *n_found counts the candidates. */
static const cli_option *find_long(const parser *p, const char *name, size_t n, int *n_found)
{
    const cli_option *found = NULL;

    *n_found = 0;
    for (int i = 0; option_at(p->command, i); i++) {
        const cli_option *o = option_at(p->command, i);
        if (strncmp(o->name, name, n)) continue;
        found = o;
        if (!o->name[n]) {
            *n_found = 1;
            return o;
        }
        ++*n_found;
    }
    return *n_found == 1 ? found : NULL;
}

/* A hint for options of other systems such as "--max-steps", which is the key max_steps here. NULL: no such key, or the command takes no keys. */
static const char *key_hint(const parser *p, const char *shown, char out[192])
{
    char key[128];

    if (!p->command->settings || strncmp(shown, "--", 2)) return NULL;
    snprintf(key, sizeof key, "%s", shown + 2);
    for (char *c = key; *c; c++)
        if (*c == '-') *c = '_';
    if (!rp__recipe_has_key(key)) return rp__recipe_elsewhere(key);
    snprintf(out, 192, "a key is set as %s=VALUE", key);
    return out;
}

static int unknown_option(const parser *p, const char *shown, int n_found)
{
    const char *names[64];
    char room[192];
    int n            = 0;
    const char *hint = key_hint(p, shown, room);

    for (; option_at(p->command, n) && n < RP_COUNT(names) - 2; n++) names[n] = option_at(p->command, n)->name;
    names[n++]       = "help";
    names[n]         = NULL;
    const char *near = !strncmp(shown, "--", 2) ? rp__nearest(shown + 2, names) : NULL;
    if (n_found > 1) cli_say(p->c, "option '%s' is not unique", shown);
    else if (hint) cli_say(p->c, "unknown option '%s': %s", shown, hint);
    else if (near) cli_say(p->c, "unknown option '%s' (did you mean '--%s'?)", shown, near);
    else cli_say(p->c, "unknown option '%s'", shown);
    return usage_error(p->c);
}

static int take_value(parser *p, const cli_option *o, const char *shown)
{
    if (p->next < p->argc) return set_option(p, o, shown, p->argv[p->next++]);
    cli_say(p->c, "option '%s' needs a value: %s", shown, o->value);
    return usage_error(p->c);
}

static int read_long(parser *p, const char *argument)
{
    size_t n           = strcspn(argument + 2, "=");
    const char *equals = argument[2 + n] ? argument + 2 + n : NULL;
    char shown[128];
    int n_found;

    snprintf(shown, sizeof shown, "%.*s", (int)n + 2, argument);
    const cli_option *o = find_long(p, argument + 2, n, &n_found);
    if (!o) return unknown_option(p, shown, n_found);
    if (o->kind == CLI_FLAG && equals) {
        cli_say(p->c, "option '%s' takes no value", shown);
        return usage_error(p->c);
    }
    if (o->kind == CLI_FLAG || equals) return set_option(p, o, shown, equals ? equals + 1 : NULL);
    return take_value(p, o, shown);
}

/* "-nq": flags may be joined, and a value may directly follow its letter. */
static int read_short(parser *p, const char *argument)
{
    for (const char *letter = argument + 1; *letter; letter++) {
        const cli_option *o = NULL;
        char shown[3]       = { '-', *letter, 0 };
        for (int i = 0; i < p->command->n_options; i++)
            if (p->command->option[i].letter == *letter) o = &p->command->option[i];
        if (!o) return unknown_option(p, shown, 0);
        if (o->kind != CLI_FLAG) return letter[1] ? set_option(p, o, shown, letter + 1) : take_value(p, o, shown);
        set_option(p, o, shown, NULL);
    }
    return CLI_GO;
}

/* ---- the command line ---- */

static bool is_setting(const char *argument)
{
    const char *p = argument;

    if (*p == '~') return isalpha((unsigned char)p[1]) || p[1] == '_';
    if (!isalpha((unsigned char)*p) && *p != '_') return false;
    while (isalnum((unsigned char)*p) || *p == '_' || *p == '.') p++;
    return *p == '=';
}

static int check_words(const parser *p, const cli_args *args)
{
    if (args->n_words < p->command->least_words)
        cli_say(p->c, "an argument is missing: reprise %s %s", p->c->command, p->command->usage);
    else if (args->n_words > p->command->most_words)
        cli_say(p->c, "unexpected argument '%s'", args->word[p->command->most_words]);
    else return CLI_GO;
    return usage_error(p->c);
}

static int options_read_all(parser *p, cli_args *args)
{
    bool only_words = false;

    while (p->next < p->argc) {
        const char *argument = p->argv[p->next++];
        int code             = CLI_GO;
        if (!only_words && (!strcmp(argument, "--help") || !strcmp(argument, "-h"))) {
            print_help(p);
            return cli_finish(p->c, RP_OK);
        }
        if (!only_words && !strcmp(argument, "--")) only_words = true;
        else if (!only_words && !strncmp(argument, "--", 2)) code = read_long(p, argument);
        else if (!only_words && argument[0] == '-' && argument[1]) code = read_short(p, argument);
        else if (p->command->settings && is_setting(argument)) args->setting[args->n_settings++] = argument;
        else args->word[args->n_words++] = argument;
        if (code != CLI_GO) return code;
    }
    return check_words(p, args);
}

/* Fields, words and settings share one allocation. */
int cli_run(cli *c, const cli_command *command, int argc, char **argv)
{
    size_t fields_bytes = (command->fields_bytes + 15) / 16 * 16;
    char *block         = rp__host_alloc(c->ctx, (int64_t)(fields_bytes + 2 * (size_t)argc * sizeof(char *)));

    if (!block) return cli_fail(c, RP_ERR_MEMORY);
    parser p           = { c, command, argc, 1, argv, block };
    const char **words = (const char **)(block + fields_bytes);
    cli_args args      = { .word = words, .setting = words + argc };
    if (command->defaults) memcpy(block, command->defaults, command->fields_bytes);
    int code = options_read_all(&p, &args);
    cli_sizes_exact(c->bytes);
    if (code == CLI_GO) code = command->run(c, block, &args);
    rp__release(block);
    return code;
}

int cli_need(const cli *c, const char *option, const char *value, const char *given)
{
    if (given) return CLI_GO;
    cli_say(c, "an option is missing: --%s %s", option, value);
    return usage_error(c);
}
