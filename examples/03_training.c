/* 03_training -- run a recipe in a C program: train, watch the loss, stop when it is low enough, export.
 *
 *   03_training [RECIPE [KEY=VALUE ...]]     without arguments: a small Llama from random weights, on a text made here
 */
#define _DEFAULT_SOURCE               /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/reprise.h>

static void write_text(const char *path)
{
    FILE *f = fopen(path, "w");

    for (int i = 0; f && i < 400; i++) fprintf(f, "%d little ducks went out one day, over the hills and far away.\n", i % 7);
    if (f) fclose(f);
}

static int complain(rp_ctx *ctx, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, rp_error(ctx));
    return 1;
}

static int train(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting)
{
    rp_recipe *recipe;
    rp_trainer *trainer;
    rp_metrics line = { .loss = 0 };
    double first    = 0;
    int64_t peak    = 0;
    bool alike      = true;

    if (rp_recipe_load(ctx, path, n_settings, setting, &recipe)) return complain(ctx, path);
    if (rp_trainer_new(ctx, recipe, &trainer)) return complain(ctx, path);
    /* The step is rehearsed before the first one, so all steps have the same peak to the byte. */
    while (rp_trainer_done(trainer) < rp_trainer_steps(trainer) && (line.step == 0 || line.loss > 1.0)) {
        if (rp_trainer_step(trainer, &line)) return complain(ctx, "training");
        if (line.step == 1) {
            first = line.loss;
            peak  = line.peak_memory_active;
        }
        alike = alike && line.peak_memory_active == peak;
    }
    if (rp_trainer_finish(trainer) || rp_trainer_report(trainer)) return complain(ctx, "the end");
    printf("the loss fell from %s 5 to %s 1\n", first > 5 ? "above" : "below", line.loss > 1 ? "above" : "below");
    printf("every step peaked at %s\n", alike ? "the same byte" : "another byte");
    rp_trainer_free(trainer);
    rp_recipe_free(recipe);
    return 0;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/reprise-example-XXXXXX", text[64], data[96], output[96];
    const char *own[] = { data, output, "max_steps=120", "epochs=100", "max_seq_len=64", "batch_size=4",
                          "model.config=recipes/tiny_llama/config.json" };
    rp_ctx *ctx;

    if (!mkdtemp(folder) || rp_ctx_new(NULL, &ctx)) return 1;
    snprintf(text, sizeof text, "%s/ducks.txt", folder);
    snprintf(data, sizeof data, "dataset.path=%s", text);
    snprintf(output, sizeof output, "output_dir=%s/run", folder);
    write_text(text);
    int code = argc > 1 ? train(ctx, argv[1], argc - 2, (const char *const *)argv + 2)
                        : train(ctx, "recipes/tiny_from_scratch.yaml", 7, own);
    rp_ctx_free(ctx);
    return code;
}

/* It prints:
the loss fell from above 5 to below 1
every step peaked at the same byte
*/
