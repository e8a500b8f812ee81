/* bench/llmc/serve.c -- training steps of llm.c's GPT-2 on the CPU, one for each line read, as bench/llmc/run asks for them.
 *
 *   serve CHECKPOINT BATCH LENGTH
 *
 * Compiled by bench/llmc/run with llm.c's own folder on the include path: train_gpt2.c is taken whole, less its main. CHECKPOINT is written
 * first, GPT-2 124M with random weights in the format that llm.c reads (version 3: a header of 256 ints, then fp32 tensor by tensor), and
 * read back by llm.c. Tokens are random, too. A step is that of llm.c's main: forward, gradients to zero, backward, update.
 */
#define TESTING                     /* leaves out main */
#include "train_gpt2.c"

enum { MAX_LENGTH = 1024, VOCAB = 50257, PADDED_VOCAB = 50304, LAYERS = 12, HEADS = 12, WIDTH = 768 };

static unsigned long long state = 1234;

static unsigned draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33);
}

static void fail(const char *what)
{
    fprintf(stderr, "bench/llmc: %s\n", what);
    exit(1);
}

/* Within 0.02 of zero, and of one where the weight of a norm is. */
static void write_tensor(FILE *to, size_t n, float middle)
{
    for (size_t i = 0; i < n; i++) {
        float v = middle + ((float)draw() / 1073741824.0f - 1.0f) * 0.02f;
        if (fwrite(&v, sizeof v, 1, to) != 1) fail("the checkpoint cannot be written");
    }
}

static void write_checkpoint(const char *path)
{
    int header[256]   = { 20240326, 3, MAX_LENGTH, VOCAB, LAYERS, HEADS, WIDTH, PADDED_VOCAB };
    GPT2Config config = { .max_seq_len = MAX_LENGTH, .vocab_size = VOCAB, .padded_vocab_size = PADDED_VOCAB, .num_layers = LAYERS,
                          .num_heads = HEADS, .channels = WIDTH };
    size_t sizes[NUM_PARAMETER_TENSORS];
    FILE *to = fopen(path, "wb");

    if (!to || fwrite(header, sizeof header, 1, to) != 1) fail("the checkpoint cannot be written");
    fill_in_parameter_sizes(sizes, config);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) write_tensor(to, sizes[i], i == 2 || i == 8 || i == 14);
    if (fclose(to)) fail("the checkpoint cannot be written");
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double one_step(GPT2 *model, int batch, int length, int step)
{
    int n = batch * length, *tokens = mallocCheck((size_t)(n + 1) * sizeof *tokens);

    for (int i = 0; i <= n; i++) tokens[i] = (int)(draw() % VOCAB);
    double start = seconds();
    gpt2_forward(model, tokens, tokens + 1, (size_t)batch, (size_t)length);
    gpt2_zero_grad(model);
    gpt2_backward(model);
    gpt2_update(model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, step);
    double spent = seconds() - start;
    free(tokens);
    return spent;
}

/* All that it ever allocates stays. */
static void tell_bytes(const GPT2 *model)
{
    size_t lasting = 4 * model->num_parameters * sizeof(float);      /* weights, gradients, two moments */

    printf("{\"peak_bytes\": %zu, \"lasting_bytes\": %zu}\n", lasting + 2 * model->num_activations * sizeof(float), lasting);
}

int main(int argc, char **argv)
{
    int batch = argc == 4 ? atoi(argv[2]) : 0, length = argc == 4 ? atoi(argv[3]) : 0, step = 1;
    char line[32];
    GPT2 model;

    if (batch < 1 || length < 1 || length > MAX_LENGTH) fail("serve CHECKPOINT BATCH LENGTH");
    write_checkpoint(argv[1]);
    gpt2_build_from_checkpoint(&model, argv[1]);
    one_step(&model, batch, length, step);
    printf("{\"ready\": true}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "bytes\n")) tell_bytes(&model);
        else printf("{\"seconds\": %.6f, \"loss\": %.6g}\n", one_step(&model, batch, length, ++step), model.mean_loss);
        fflush(stdout);
    }
    gpt2_free(&model);
    return 0;
}
