/* cli/cmd_download.c -- download: a model from the Hugging Face hub. Reads the arguments and the environment. */
#include "cli/hub/download.h"

#include <ctype.h>

typedef struct { const char *folder, *file; int64_t retries; double wait_seconds; } download_fields;

enum { NAME_CHARS = 256 };

static const char *const hub_address = "https://huggingface.co";

/* "owner/name" or "name" of letters, digits, '-', '_' and '.'; each part begins with a letter, a digit or '_'. */
static bool is_repo(const char *text)
{
    int n_slashes = 0;

    for (const char *p = text; *p; p++) {
        bool begins = p == text || p[-1] == '/';
        n_slashes += *p == '/';
        if (begins ? !isalnum((unsigned char)*p) && *p != '_' : !isalnum((unsigned char)*p) && !strchr("-_./", *p)) return false;
    }
    return *text && n_slashes <= 1 && !rp__ends_with(text, "/");
}

/* Texts that go into a header or a URL must not contain spaces or control characters, which would end it. */
static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= 32 || (unsigned char)*text >= 127) return false;
    return true;
}

/* Split "REPO@REVISION"; the default revision is "main". */
static int split(const cli *c, const char *word, char repo[NAME_CHARS], char revision[NAME_CHARS])
{
    const char *at = strchr(word, '@');
    int n          = at ? (int)(at - word) : (int)strlen(word);

    if (n < NAME_CHARS && strlen(word) < NAME_CHARS) {
        snprintf(repo, NAME_CHARS, "%.*s", n, word);
        snprintf(revision, NAME_CHARS, "%s", at ? at + 1 : "main");
        if (is_repo(repo) && revision[0] && is_printable(revision)) return CLI_GO;
    }
    cli_say(c, "'%.*s' is not the name of a repository: write OWNER/NAME or OWNER/NAME@REVISION", NAME_CHARS, word);
    return CLI_USAGE;
}

static int read_environment(const cli *c, cli_download *order, char endpoint[NAME_CHARS])
{
    const char *set = getenv("HF_ENDPOINT"), *token = getenv("HF_TOKEN");

    if (!set || !*set) set = hub_address;
    if ((strncmp(set, "https://", 8) && strncmp(set, "http://", 7)) || !is_printable(set) || strlen(set) >= NAME_CHARS) {
        cli_say(c, "HF_ENDPOINT is '%.*s', not an address that begins with https:// or http://", NAME_CHARS, set);
        return CLI_USAGE;
    }
    if (token && !is_printable(token)) {
        cli_say(c, "HF_TOKEN contains a space or another character that no token has");
        return CLI_USAGE;
    }
    size_t n = strlen(set);
    while (n && set[n - 1] == '/') n--;
    snprintf(endpoint, NAME_CHARS, "%.*s", (int)n, set);
    order->endpoint = endpoint;
    order->token    = token && *token ? token : NULL;
    return CLI_GO;
}

static int download(cli *c, const void *given, const cli_args *args)
{
    const download_fields *fields = given;
    char repo[NAME_CHARS], revision[NAME_CHARS], endpoint[NAME_CHARS], folder[NAME_CHARS + 16];
    cli_download order = { .repo = repo, .revision = revision, .file = fields->file, .retries = fields->retries, .wait_seconds = fields->wait_seconds };

    int code = split(c, args->word[0], repo, revision);
    if (code == CLI_GO) code = read_environment(c, &order, endpoint);
    if (code != CLI_GO) return code;
    snprintf(folder, sizeof folder, "models/%s", strchr(repo, '/') ? strchr(repo, '/') + 1 : repo);
    order.folder = fields->folder ? fields->folder : folder;
    return cli_download_run(c, &order);
}

static const cli_option options[] = {
    { "output", 'o', CLI_TEXT, offsetof(download_fields, folder), "DIR", "folder to download to (default: models/NAME)", 0, 0 },
    { "file", 'f', CLI_TEXT, offsetof(download_fields, file), "NAME", "download only this file, for example a .gguf", 0, 0 },
    { "retries", 0, CLI_INT, offsetof(download_fields, retries), "N", "retries in a row that receive nothing, before giving up (default: 5)", 0, 1000 },
    { "retry-wait", 0, CLI_NUMBER, offsetof(download_fields, wait_seconds), "SECONDS",
      "wait before the first retry, doubled before each further one (default: 1)", 0, 3600 },
};

const cli_command cmd_download = {
    .usage = "REPO[@REVISION] [-o DIR] [--file NAME]",
    .about = "Download a model from the Hugging Face hub: its config, tokenizer and weights in safetensors, or one file. An interrupted\n"
             "download continues where it stopped. Every file is compared with the digest on the hub. DIR is printed at the end.\n"
             "Environment: HF_TOKEN for gated or private models, HF_ENDPOINT for a hub other than huggingface.co.",
    .example = "reprise download HuggingFaceTB/SmolLM2-135M",
    CLI_OPTIONS(download_fields, options),
    .defaults = &(const download_fields){ .retries = 5, .wait_seconds = 1 },
    .least_words = 1, .most_words = 1,
    .run = download,
};
