/* Shard units: what wrapping rules make of a model's weights, in every family, tied and untied. */
/* ctest: device-free */
#include "rp_test.h"

#include "models/model.h"
#include "shard/gather.h"
#include "shard/ranks.h"

enum { LAYERS = 3, MOST = 4 };

typedef struct {
    const char *name;
    bool gpt2, qkv_bias, tied;
} family;

static const family families[] = {
    { "llama", false, false, false }, { "llama, tied", false, false, true }, { "qwen", false, true, false },
    { "qwen, tied", false, true, true }, { "gpt2", true, true, true }, { "gpt2, untied", true, true, false },
};

static rp_model *model_new(rp_ctx *ctx, const family *f)
{
    rp_model_config config = {
        .vocab = 61, .hidden = 24, .n_layers = LAYERS, .n_heads = 6, .n_kv_heads = f->gpt2 ? 6 : 2, .head_dim = 4, .mlp_hidden = 40,
        .context = 32, .norm = f->gpt2 ? RP_NORM_LAYER : RP_NORM_RMS, .norm_eps = 1e-5, .activation = f->gpt2 ? RP_ACT_GELU_TANH : RP_ACT_SILU,
        .gated_mlp = !f->gpt2, .fused_qkv = f->gpt2, .qkv_bias = f->qkv_bias, .attn_output_bias = f->gpt2, .mlp_bias = f->gpt2,
        .tied = f->tied, .weights_in_out = f->gpt2, .learned_positions = f->gpt2,
        .rope = { .kind = f->gpt2 ? RP_ROPE_NONE : RP_ROPE_DEFAULT, .theta = 10000, .factor = 1 }, .attn_scale = 0.5, .bos = -1, .eos = -1,
    };
    rp_model *m;

    assert_ok(ctx, rp__model_build(ctx, &config, RP_F32, &m));
    return m;
}

typedef struct { const char *custom[MOST], *wrap[MOST]; } rules;

static rp_status open_units(rp_ctx *ctx, rp_module *root, const rules *r, rp_units *out)
{
    rp_unit_rules all = { .custom = r->custom, .wrap = r->wrap, .layers = "layers" };

    while (all.n_custom < MOST && r->custom[all.n_custom]) all.n_custom++;
    while (all.n_wrap < MOST && r->wrap[all.n_wrap]) all.n_wrap++;
    return rp__units_open(ctx, root, &all, out);
}

static const rules many[] = {
    { { NULL }, { NULL } },
    { { "tok_embeddings", "output" }, { NULL } },
    { { "tok_embeddings" }, { NULL } },
    { { "output" }, { NULL } },
    { { "layers.1", "norm" }, { NULL } },
    { { "*.attn", "tok*" }, { NULL } },
    { { NULL }, { "TransformerBlock", "Attention" } },
    { { NULL }, { "Linear", "MLP" } },
    { { "output" }, { "Embedding" } },
    { { NULL }, { "*.mlp", "layers.0" } },
    { { NULL }, { "Decoder" } },
    { { NULL }, { "*" } },
};

/* ---- of every model and rule ---- */

static int units_with(const rp_units *u, const rp_param *p)
{
    int n = 0;

    for (int i = 0; i < u->n_units; i++)
        for (int k = 0; k < u->unit[i].n_params; k++) n += u->unit[i].param[k] == p;
    return n;
}

static const rp_unit *unit_of(const rp_units *u, const rp_param *p)
{
    for (int i = 0; i < u->n_units; i++)
        for (int k = 0; k < u->unit[i].n_params; k++)
            if (u->unit[i].param[k] == p) return &u->unit[i];
    return NULL;
}

static bool inside_unit(const rp_unit *unit, const rp_module *m)
{
    for (; m; m = m->parent)
        for (int i = 0; i < unit->n_entries; i++)
            if (unit->entry[i] == m) return true;
    return false;
}

static void check_reads(const rp_units *u, rp_module *root)
{
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++) {
            const rp_param *p   = m->param[i].owner ? m->param[i].owner : &m->param[i];
            const rp_unit *unit = unit_of(u, p);
            if (!unit || !inside_unit(unit, m)) fail_msg("the forward of '%s' reads '%s' outside its unit", m->path, p->path);
        }
}

typedef void (*check)(rp_ctx *ctx, rp_model *m, const rp_units *u);

static void for_all(check holds)
{
    for (int f = 0; f < RP_COUNT(families); f++)
        for (int r = 0; r < RP_COUNT(many); r++) {
            rp_ctx *ctx = test_ctx(NULL);
            rp_model *m = model_new(ctx, &families[f]);
            rp_units u;
            assert_ok(ctx, open_units(ctx, rp__model_root(m), &many[r], &u));
            holds(ctx, m, &u);
            rp__units_close(&u);
            rp__model_free(m);
            test_ctx_free(ctx);
        }
}

static void params_once(rp_ctx *ctx, rp_model *m, const rp_units *u)
{
    int64_t bytes = 0;

    (void)ctx;
    for (int i = 0; i < rp__model_n_params(m); i++) {
        assert_int_equal(units_with(u, rp__model_param(m, i)), 1);
        bytes += rp_meta_bytes(&rp__model_param(m, i)->whole);
    }
    for (int i = 0; i < u->n_units; i++) bytes -= u->unit[i].whole_bytes;
    assert_int_equal(bytes, 0);
}

static void each_weight_is_in_exactly_one_unit(void **state)
{
    (void)state;
    for_all(params_once);
}

static void reads_inside(rp_ctx *ctx, rp_model *m, const rp_units *u)
{
    (void)ctx;
    check_reads(u, rp__model_root(m));
}

static void whoever_reads_a_weight_runs_inside_its_unit(void **state)
{
    (void)state;
    for_all(reads_inside);
}

/* The place of its first entry in a walk. */
static int place(rp_module *root, const rp_unit *unit)
{
    int at = 0;

    for (rp_module *m = root; m != unit->entry[0]; m = rp__module_next(root, m)) at++;
    return at;
}

static void in_order(rp_ctx *ctx, rp_model *m, const rp_units *u)
{
    (void)ctx;
    for (int i = 1; i < u->n_units; i++) assert_true(place(rp__model_root(m), &u->unit[i - 1]) < place(rp__model_root(m), &u->unit[i]));
}

static void units_come_in_the_order_of_the_forward(void **state)
{
    (void)state;
    for_all(in_order);
}

static void entered_once(rp_ctx *ctx, rp_model *m, const rp_units *u)
{
    rp_module *root = rp__model_root(m);

    (void)ctx;
    for (rp_module *at = root; at; at = rp__module_next(root, at)) {
        int n = 0;
        for (int i = 0; i < u->n_units; i++)
            for (int k = 0; k < u->unit[i].n_entries; k++) n += u->unit[i].entry[k] == at;
        assert_true(n <= 1);
        assert_int_equal(n, rp__units_entered(u, at) != NULL);
        assert_false(n && at->type->is_list);
    }
}

static void a_module_enters_one_unit_at_most_and_a_list_none(void **state)
{
    (void)state;
    for_all(entered_once);
}

/* ---- of some ---- */

static void check_text(const family *f, const rules *r, const char *want)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = model_new(ctx, f);
    char text[RP_UNITS_CHARS];
    rp_units u;

    assert_ok(ctx, open_units(ctx, rp__model_root(m), r, &u));
    assert_string_equal(rp__units_text(&u, text), want);
    rp__units_close(&u);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void units_are_printed_in_a_line(void **state)
{
    const family *llama = &families[0], *tied = &families[1], *gpt2 = &families[4];

    (void)state;
    check_text(llama, &(rules){ .custom = { NULL } }, "4 units: every TransformerBlock (3); and the rest (tok_embeddings, norm, output)");
    check_text(llama, &(rules){ .custom = { "tok_embeddings", "output" } },
               "6 units: tok_embeddings; every TransformerBlock (3); output; and the rest (norm)");
    check_text(llama, &(rules){ .custom = { "tok_embeddings", "output", "norm" } }, "6 units: tok_embeddings; every TransformerBlock (3); norm; output");
    check_text(tied, &(rules){ .custom = { "output" } }, "5 units: tok_embeddings + output; every TransformerBlock (3); and the rest (norm)");
    check_text(gpt2, &(rules){ .custom = { NULL } }, "4 units: every TransformerBlock (3); and the rest (tok_embeddings, pos_embeddings, norm)");
    check_text(llama, &(rules){ .wrap = { "*.attn.q", "layers.0" } },
               "5 units: layers.0; 3 of 22 Linear (layers.0.attn.q, layers.1.attn.q, layers.2.attn.q); "
               "and the rest (tok_embeddings, layers.1.attn_norm, layers.1.attn.k, …)");
    check_text(llama, &(rules){ .custom = { "tok_embeddings", "output", "norm" }, .wrap = { "*_norm", "*.attn.q", "*.attn.output", "MLP" } },
               "19 units: tok_embeddings; every Norm (7); 7 of 22 Linear (layers.0.attn.q, layers.0.attn.output, layers.1.attn.q, …); every MLP (3); "
               "and the rest (layers.0.attn.k, layers.0.attn.v, layers.1.attn.k, …)");
    check_text(llama, &(rules){ .wrap = { "Decoder" } }, "1 unit: the whole model");
}

static void check_tied(const rules *r, const char *unit, int n_entries)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = model_new(ctx, &families[1]);
    rp_units u;

    assert_ok(ctx, open_units(ctx, rp__model_root(m), r, &u));
    const rp_unit *found = unit_of(&u, rp__model_find_param(m, "tok_embeddings.weight"));
    assert_string_equal(found->path, unit);
    assert_int_equal(found->n_entries, n_entries);
    rp__units_close(&u);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void tied_weights_are_one_unit_when_either_use_is_named(void **state)
{
    (void)state;
    check_tied(&(rules){ .custom = { "tok_embeddings", "output" } }, "tok_embeddings + output", 2);
    check_tied(&(rules){ .custom = { "tok_embeddings" } }, "tok_embeddings + output", 2);
    check_tied(&(rules){ .custom = { "output" } }, "tok_embeddings + output", 2);
    check_tied(&(rules){ .wrap = { "Embedding", "TransformerBlock" } }, "tok_embeddings + output", 2);
    check_tied(&(rules){ .custom = { NULL } }, "", 1);
}

/* root ─ layers ─┬ 0 ─┬ a ─ inner   inner's weight is read by layers.1.b, too
 *                └ 1 ─┴ b             and a's own by layers.1 itself */
static void a_use_that_becomes_an_entry_divides_others_and_they_are_joined_too(void **state)
{
    static const rp_module_kind root_kind = { .name = "Decoder" }, list = { .name = "ModuleList", .is_list = true };
    static const rp_module_kind block = { .name = "TransformerBlock" }, part = { .name = "Part" };
    rp_ctx *ctx     = test_ctx(NULL);
    rp_meta meta    = rp_meta_1d(RP_F32, 4);
    rp_module *root, *layers, *first, *second, *a, *inner, *b;
    rp_tensor *t;
    rp_units u;

    (void)state;
    assert_ok(ctx, rp__module_new(ctx, NULL, "", &root_kind, sizeof *root, &root));
    assert_ok(ctx, rp__module_new(ctx, root, "layers", &list, sizeof *root, &layers));
    assert_ok(ctx, rp__module_new(ctx, layers, "0", &block, sizeof *root, &first));
    assert_ok(ctx, rp__module_new(ctx, first, "a", &part, sizeof *root, &a));
    assert_ok(ctx, rp__module_new(ctx, a, "inner", &part, sizeof *root, &inner));
    assert_ok(ctx, rp__module_new(ctx, layers, "1", &block, sizeof *root, &second));
    assert_ok(ctx, rp__module_new(ctx, second, "b", &part, sizeof *root, &b));
    assert_ok(ctx, rp__module_param(a, "weight", &meta, &t));
    assert_ok(ctx, rp__module_param(inner, "weight", &meta, &t));
    assert_ok(ctx, rp__module_share(b, "weight", &inner->param[0]));
    assert_ok(ctx, rp__module_share(second, "weight", &a->param[0]));
    assert_ok(ctx, open_units(ctx, root, &(rules){ .custom = { NULL } }, &u));
    assert_int_equal(units_with(&u, &a->param[0]), 1);
    assert_int_equal(units_with(&u, &inner->param[0]), 1);
    check_reads(&u, root);
    rp__units_close(&u);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void a_rank_holds_its_slices_of_a_unit(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_comm *comm;
    rp_units u;

    (void)state;
    assert_ok(ctx, rp__comm_shapes(ctx, 3, 4, &comm));
    rp__groups(ctx)->shards = comm;
    rp_model *m = model_new(ctx, &families[0]);
    assert_ok(ctx, open_units(ctx, rp__model_root(m), &(rules){ .custom = { "tok_embeddings", "output" } }, &u));
    const rp_unit *output = &u.unit[u.n_units - 1];
    assert_string_equal(output->path, "output");
    assert_int_equal(output->whole_bytes, 61 * 24 * 4);
    assert_int_equal(output->slice_bytes, rp__slice_of(61 * 24, 3, 4).room * 4);
    rp__units_close(&u);
    rp__model_free(m);
    rp__groups(ctx)->shards = NULL;
    rp__comm_close(comm);
    test_ctx_free(ctx);
}

/* ---- what is refused ---- */

static void a_rule_that_matches_nothing_is_an_error_that_says_what_was_meant(void **state)
{
    static const struct { rules r; const char *says; } wrong[] = {
        { { .custom = { "lm_haed" } }, "'dist.custom_sharded_layers': no module matches 'lm_haed'" },
        { { .custom = { "outputs" } }, "'dist.custom_sharded_layers': no module matches 'outputs' (did you mean 'output'?)" },
        { { .custom = { "tok_embeddings", "outputs" } }, "'dist.custom_sharded_layers': no module matches 'outputs' (did you mean 'output'?)" },
        { { .custom = { "layers.3" } }, "'dist.custom_sharded_layers': no module matches 'layers.3' (did you mean 'layers.0'?)" },
        { { .custom = { "*.moe" } }, "'dist.custom_sharded_layers': no module matches '*.moe'" },
        { { .custom = { "layers" } }, "'dist.custom_sharded_layers': 'layers' is a list of modules, which has no forward; name its members: 'layers.*'" },
        { { .custom = { "output.weight" } }, "'dist.custom_sharded_layers': 'output.weight' is a parameter; name its module, 'output'" },
        { { .wrap = { "Atention" } }, "'dist.modules_to_wrap': no module is of type, or matches, 'Atention' (did you mean 'Attention'?)" },
        { { .wrap = { "BatchNorm" } }, "'dist.modules_to_wrap': no module is of type, or matches, 'BatchNorm'" },
        { { .wrap = { "ModuleList" } },
          "'dist.modules_to_wrap': 'ModuleList' is a list of modules, which has no forward; name its members: 'layers.*'" },
    };
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = model_new(ctx, &families[0]);

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        rp_units u;
        assert_int_equal(open_units(ctx, rp__model_root(m), &wrong[i].r, &u), RP_ERR_MATCH);
        assert_string_equal(rp_error(ctx), wrong[i].says);
        assert_int_equal(strncmp(rp_error(ctx) + 1, u.failed, strlen(u.failed)), 0);     /* the key that the sentence begins with */
        rp__units_close(&u);
    }
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void a_list_of_blocks_that_is_not_there_is_an_error(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = model_new(ctx, &families[0]);
    rp_units u;

    (void)state;
    assert_int_equal(rp__units_open(ctx, rp__model_root(m), &(rp_unit_rules){ .layers = "blocks" }, &u), RP_ERR_MATCH);
    assert_string_equal(rp_error(ctx), "no list of modules is named 'blocks'; by default each of its blocks is a shard unit");
    assert_null(u.failed);
    rp__units_close(&u);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void a_module_without_parameters_is_an_error(void **state)
{
    static const rp_module_kind kind = { .name = "Decoder" }, bare = { .name = "Bare" };
    rp_ctx *ctx = test_ctx(NULL);
    rp_module *root, *m;
    rp_units u;

    (void)state;
    assert_ok(ctx, rp__module_new(ctx, NULL, "", &kind, sizeof *root, &root));
    assert_ok(ctx, rp__module_new(ctx, root, "act", &bare, sizeof *m, &m));
    assert_int_equal(open_units(ctx, root, &(rules){ .wrap = { "act" } }, &u), RP_ERR_MATCH);
    assert_string_equal(rp_error(ctx), "'dist.modules_to_wrap': 'act' has no parameters");
    rp__units_close(&u);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void running_out_of_memory_anywhere_leaves_nothing(void **state)
{
    rp_ctx *ctx   = test_ctx(NULL);
    rp_model *m   = model_new(ctx, &families[1]);
    test_faults f = { 0 };

    (void)state;
    while (!f.over) {
        rp_units u;
        test_fault_begin(&f, ctx);
        test_fault_end(&f, open_units(ctx, rp__model_root(m), &(rules){ .custom = { "output" } }, &u));
        rp__units_close(&u);
    }
    assert_true(f.failed > 0);
    rp__model_free(m);
    test_ctx_free(ctx);
}

/* The lists of so many modules fill a block of memory, so the message's list of names needs another one. */
static void a_rule_whose_error_message_has_no_memory_is_not_named(void **state)
{
    enum { MODULES = 290 };
    static const rp_module_kind kind = { .name = "Decoder" }, bare = { .name = "Bare" };
    rp_ctx *ctx      = test_ctx(NULL);
    rp_status status = RP_ERR_MEMORY;
    rp_module *root, *m;
    int refused = 0;
    char name[16];

    (void)state;
    assert_ok(ctx, rp__module_new(ctx, NULL, "", &kind, sizeof *root, &root));
    for (int i = 0; i < MODULES; i++) assert_ok(ctx, rp__module_new(ctx, root, (snprintf(name, sizeof name, "m%d", i), name), &bare, sizeof *m, &m));
    while (status == RP_ERR_MEMORY) {
        rp_units u;
        ctx->fault_countdown = ++refused;
        status               = open_units(ctx, root, &(rules){ .wrap = { "outputs" } }, &u);
        ctx->fault_countdown = 0;
        if (status == RP_ERR_MEMORY) assert_null(u.failed);
        else assert_string_equal(u.failed, "dist.modules_to_wrap");
        rp__units_close(&u);
    }
    assert_int_equal(status, RP_ERR_MATCH);
    assert_true(refused > 2);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void running_out_of_memory_leaves_a_tree_that_does_not_gather(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        rp_ctx *ctx   = test_ctx(NULL);
        test_faults f = { 0 };
        rp_units u;
        assert_ok(ctx, rp__ranks_pretend(ctx, 3, 4, 1));
        if (way / 2) assert_ok(ctx, rp__ranks_stay(ctx, 2));
        rp_model *m = model_new(ctx, &families[1]);
        assert_ok(ctx, open_units(ctx, rp__model_root(m), &(rules){ .wrap = { "TransformerBlock" } }, &u));
        while (!f.over) {
            rp_gather *g = NULL;
            test_fault_begin(&f, ctx);
            if (test_fault_end(&f, rp__gather_new(ctx, &u, true, way % 2, &g))) assert_null(g);
            rp__gather_free(g);
        }
        assert_true(f.failed > 3);
        rp__units_close(&u);
        rp__model_free(m);
        rp__ranks_leave(ctx);
        test_ctx_free(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_weight_is_in_exactly_one_unit),
        cmocka_unit_test(whoever_reads_a_weight_runs_inside_its_unit),
        cmocka_unit_test(units_come_in_the_order_of_the_forward),
        cmocka_unit_test(a_module_enters_one_unit_at_most_and_a_list_none),
        cmocka_unit_test(units_are_printed_in_a_line),
        cmocka_unit_test(tied_weights_are_one_unit_when_either_use_is_named),
        cmocka_unit_test(a_use_that_becomes_an_entry_divides_others_and_they_are_joined_too),
        cmocka_unit_test(a_rank_holds_its_slices_of_a_unit),
        cmocka_unit_test(a_rule_that_matches_nothing_is_an_error_that_says_what_was_meant),
        cmocka_unit_test(a_list_of_blocks_that_is_not_there_is_an_error),
        cmocka_unit_test(a_module_without_parameters_is_an_error),
        cmocka_unit_test(running_out_of_memory_anywhere_leaves_nothing),
        cmocka_unit_test(a_rule_whose_error_message_has_no_memory_is_not_named),
        cmocka_unit_test(running_out_of_memory_leaves_a_tree_that_does_not_gather),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
