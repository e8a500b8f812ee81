/* 18_own_data -- documents of your own for the trainer: a model of characters learns the alphabet from a function of the program.
 */
#define _DEFAULT_SOURCE               /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>

#include <reprise/ops.h>
#include <reprise/train.h>

enum { DOCUMENTS = 416, LENGTH = 32, LETTERS = 26 };

static void must(const rp_ctx *ctx, rp_status status) { if (status) exit(printf("%s\n", rp_error(ctx)) > 0); }

/* Document i is the alphabet from its letter i on. An id is a character. */
static rp_status alphabet(rp_ctx *ctx, void *user, int64_t document, const int32_t **ids, int64_t *n_ids)
{
    int32_t *room = user;

    (void)ctx;
    if (document == DOCUMENTS) return RP_OK;
    for (int i = 0; i < LENGTH; i++) room[i] = 'a' + (int32_t)(document + i) % LETTERS;
    *ids   = room;
    *n_ids = LENGTH;
    return RP_OK;
}

/* Continue the text by the likeliest characters. */
static void continue_text(rp_ctx *ctx, rp_model *model, int n, char text[LENGTH])
{
    static double logit[LENGTH * 512];
    int32_t id[LENGTH];

    for (; n < LENGTH - 1; n++) {
        rp_tensor *tokens, *logits;
        for (int i = 0; i < n; i++) id[i] = text[i];
        must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_I32, 2, { 1, n } }, RP_MEM_TEMP, &tokens));
        must(ctx, rp_tensor_write_i32(tokens, id, n));
        must(ctx, rp_model_logits(model, tokens, &logits));
        int64_t classes = rp_tensor_meta(logits)->dim[2], best = 0;
        must(ctx, rp_tensor_read(logits, logit, n * classes));
        for (int64_t c = 1; c < classes; c++)
            if (logit[(n - 1) * classes + c] > logit[(n - 1) * classes + best]) best = c;
        text[n] = (char)best;
        rp_tensor_unref(tokens);
        rp_tensor_unref(logits);
    }
    text[n] = 0;
}

int main(void)
{
    char folder[] = "/tmp/reprise-example-XXXXXX", output[64], text[LENGTH] = "hijk";
    const char *settings[] = { output, "model.config=recipes/tiny_llama/config.json", "dataset.packed=false", "max_seq_len=32", "batch_size=8", "epochs=4",
                               "max_steps=150" };
    int32_t room[LENGTH];
    rp_trainer *trainer;
    rp_recipe *recipe;
    rp_ctx *ctx;

    if (!mkdtemp(folder) || rp_ctx_new(NULL, &ctx)) return 1;
    snprintf(output, sizeof output, "output_dir=%s/run", folder);
    must(ctx, rp_recipe_load(ctx, "recipes/tiny_from_scratch.yaml", 7, settings, &recipe));
    rp_recipe_documents(recipe, alphabet, room);
    must(ctx, rp_trainer_new(ctx, recipe, &trainer));
    while (rp_trainer_done(trainer) < rp_trainer_steps(trainer)) must(ctx, rp_trainer_step(trainer, NULL));
    must(ctx, rp_trainer_finish(trainer));
    rp_set_grad(ctx, false);
    continue_text(ctx, rp_trainer_model(trainer), 4, text);
    printf("%s\n", text);
    rp_trainer_free(trainer);
    rp_recipe_free(recipe);
    rp_ctx_free(ctx);
    return 0;
}

/* It prints:
hijklmnopqrstuvwxyzabcdefghijkl
*/
