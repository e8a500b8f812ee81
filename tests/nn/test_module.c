/* The tree of modules: paths, walks, text, modes, and which modules become regions. */
#include "rp_test.h"

#include "nn/layers.h"

/* A module that runs its children in turn and writes down how it was called. */
typedef struct {
    rp_module m;
    int n_runs;
    bool was_eval, knew_itself;
} probe;

static rp_status probe_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    probe *p     = (probe *)self;
    rp_tensor *x = rp_tensor_ref(in[0]);

    p->n_runs++;
    p->was_eval    = rp__tape_ctx(self->ctx)->eval;
    p->knew_itself = rp__tape_ctx(self->ctx)->scope->module == self;
    for (rp_module *child = self->first_child; child; child = child->next) {
        rp_status status = rp__layer_step(child, &x);
        if (status == RP_OK) continue;
        rp_tensor_unref(x);
        return status;
    }
    *out = x;
    return RP_OK;
}

static rp_status refuse(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    (void)in;
    (void)out;
    return rp_fail(self->ctx, RP_ERR_STATE, "refused");
}

static probe *probe_new(rp_ctx *ctx, rp_module *parent, const char *name)
{
    static const rp_module_kind type = { .name = "Probe", .forward = probe_forward };
    probe *p;

    assert_ok(ctx, rp__module_new(ctx, parent, name, &type, sizeof *p, &p));
    return p;
}

/* root ─┬ layers ─┬ 0 ─ attn
 *       │         └ 1 ─┬ attn
 *       │              └ mlp
 *       └ norm                  */
enum { ROOT, LAYERS, FIRST, FIRST_ATTN, SECOND, SECOND_ATTN, MLP, NORM, PROBES };

static const struct { int parent; const char *name, *path; } plan[PROBES] = {
    { -1, "", "" }, { ROOT, "layers", "layers" }, { LAYERS, "0", "layers.0" }, { FIRST, "attn", "layers.0.attn" },
    { LAYERS, "1", "layers.1" }, { SECOND, "attn", "layers.1.attn" }, { SECOND, "mlp", "layers.1.mlp" }, { ROOT, "norm", "norm" },
};

typedef struct { rp_ctx *ctx; probe *at[PROBES]; rp_tensor *x; } tree;

static tree tree_new(void)
{
    tree t       = { .ctx = test_ctx(NULL) };
    rp_meta meta = rp_meta_1d(RP_F32, 1);

    for (int i = 0; i < PROBES; i++) t.at[i] = probe_new(t.ctx, plan[i].parent < 0 ? NULL : &t.at[plan[i].parent]->m, plan[i].name);
    assert_ok(t.ctx, rp_tensor_new(t.ctx, &meta, RP_MEM_TEMP, &t.x));
    assert_ok(t.ctx, rp_tensor_write(t.x, &(double){ 1 }, 1));
    return t;
}

static void tree_run(tree *t)
{
    rp_tensor *y;

    assert_ok(t->ctx, rp__module_call(&t->at[ROOT]->m, &t->x, &y));
    rp_tensor_unref(y);
}

static void tree_free(tree *t)
{
    rp_tensor_unref(t->x);
    rp__module_free(&t->at[ROOT]->m);
    test_ctx_free(t->ctx);
}

/* ---- paths and walks ---- */

static void a_path_has_the_layer_it_leads_through(void **state)
{
    static const struct { const char *path; int64_t layer; } rows[] = {
        { "layers.3.attn.q", 3 }, { "decoder.layers.12", 12 }, { "0", 0 }, { "a.7.b.8", 7 }, { "layers.007", 7 }, { "x2.4", 4 },
        { "9223372036854775807", INT64_MAX },
        { "", -1 }, { "layers", -1 }, { "layers.3a", -1 }, { "layers.-1", -1 }, { "layers.+1", -1 }, { "layers..", -1 }, { "1x.x1", -1 },
        { "9223372036854775808", -1 }, { "00000000000000000000000000000000000000001", -1 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(rows); i++) {
        int64_t layer = -1;
        assert_int_equal(rp_path_layer(rows[i].path, &layer), rows[i].layer >= 0);
        assert_int_equal(layer, rows[i].layer);
    }
}

typedef struct { const probe *const *expected; int n; } visits;

static void expect_next(const char *path, rp_module *m, void *user)
{
    visits *v = user;

    assert_ptr_equal(m, &v->expected[v->n]->m);
    assert_string_equal(path, rp_module_path(m));
    v->n++;
}

static void a_walk_visits_parents_first_and_nothing_beside_its_root(void **state)
{
    (void)state;
    tree t   = tree_new();
    visits v = { (const probe *const *)t.at, 0 };

    rp_module_walk(&t.at[ROOT]->m, expect_next, &v);
    assert_int_equal(v.n, PROBES);
    v = (visits){ (const probe *const *)t.at + SECOND, 0 };
    rp_module_walk(&t.at[SECOND]->m, expect_next, &v);
    assert_int_equal(v.n, 3);
    tree_free(&t);
}

static void a_module_knows_its_path_its_parent_and_itself_while_it_runs(void **state)
{
    (void)state;
    tree t = tree_new();

    tree_run(&t);
    for (int i = 0; i < PROBES; i++) {
        assert_string_equal(rp_module_path(&t.at[i]->m), plan[i].path);
        assert_ptr_equal(rp_module_find(&t.at[ROOT]->m, plan[i].path), t.at[i]);
        assert_ptr_equal(rp_module_parent(&t.at[i]->m), plan[i].parent < 0 ? NULL : t.at[plan[i].parent]);
        assert_true(t.at[i]->knew_itself);
        assert_int_equal(t.at[i]->n_runs, 1);
    }
    assert_null(rp__tape_ctx(t.ctx)->scope);
    tree_free(&t);
}

/* ---- text ---- */

static rp_module *printed_tree(rp_ctx *ctx)
{
    rp_norm_config norm = { .n = 4, .eps = 1e-5f, .layer = true };
    rp_mlp_config mlp   = { .n = 4, .hidden = 6, .gated = true };
    probe *root         = probe_new(ctx, NULL, "");
    rp_module *embedding, *layers, *m;

    assert_ok(ctx, rp__embedding_new(&root->m, "tok_embeddings", 9, 4, RP_BF16, &embedding));
    assert_ok(ctx, rp__module_list_new(&root->m, "layers", &layers));
    assert_ok(ctx, rp__mlp_new(layers, "0", &mlp, RP_F32, &m));
    assert_ok(ctx, rp__norm_new(&root->m, "norm", &norm, RP_F32, &m));
    assert_ok(ctx, rp__linear_new_tied(&root->m, "output", &embedding->param[0], &m));
    return &root->m;
}

static const char *const printed = "Probe\n"
                                   "  tok_embeddings  Embedding  weight bf16 [9, 4]\n"
                                   "  layers  ModuleList\n"
                                   "    0  MLP\n"
                                   "      gate  Linear  weight fp32 [6, 4]\n"
                                   "      up  Linear  weight fp32 [6, 4]\n"
                                   "      down  Linear  weight fp32 [4, 6]\n"
                                   "  norm  Norm  weight fp32 [4]  bias fp32 [4]\n"
                                   "  output  Linear  weight = tok_embeddings.weight\n";

static bool always(const char *path, const rp_module *m, void *user)
{
    (void)path;
    (void)m;
    (void)user;
    return true;
}

static void the_text_of_a_tree_does_not_show_what_is_checkpointed(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_module *root = printed_tree(ctx);
    char *text;

    for (int checkpointed = 0; checkpointed < 2; checkpointed++) {
        rp_module_checkpoint(root, checkpointed ? always : NULL, NULL);
        assert_ok(ctx, rp_module_print(root, &text));
        assert_string_equal(text, printed);
        rp_release(text);
    }
    assert_ok(ctx, rp_module_print(rp_module_find(root, "layers.0.gate"), &text));
    assert_string_equal(text, "gate  Linear  weight fp32 [6, 4]\n");
    rp_release(text);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void a_text_without_memory_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_module *root = printed_tree(ctx);
    char *text      = NULL;
    test_faults f   = { 0 };

    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp_module_print(root, &text))) assert_null(text);
    }
    assert_true(f.failed > 1);
    assert_string_equal(text, printed);
    rp_release(text);
    rp__module_free(root);
    test_ctx_free(ctx);
}

/* ---- modes ---- */

static void assert_eval(const tree *t, unsigned expected)
{
    for (int i = 0; i < PROBES; i++)
        if (t->at[i]->was_eval != (expected >> i & 1)) fail_msg("'%s' ran in the wrong mode", plan[i].path);
}

enum { ALL = (1 << PROBES) - 1, SECOND_AND_UNDER = 1 << SECOND | 1 << SECOND_ATTN | 1 << MLP };

static void a_part_in_evaluation_mode_leaves_the_others_in_theirs(void **state)
{
    (void)state;
    tree t = tree_new();

    tree_run(&t);
    assert_eval(&t, 0);
    rp_module_train(&t.at[SECOND]->m, false);
    tree_run(&t);
    assert_eval(&t, SECOND_AND_UNDER);
    assert_false(rp__tape_ctx(t.ctx)->eval);
    rp_set_train(t.ctx, false);
    tree_run(&t);
    assert_eval(&t, ALL);
    assert_true(rp__tape_ctx(t.ctx)->eval);
    rp_set_train(t.ctx, true);
    rp_module_train(&t.at[ROOT]->m, false);
    rp_module_train(&t.at[SECOND]->m, true);
    tree_run(&t);
    assert_eval(&t, ALL);                           /* what is around it decides too */
    rp_module_train(&t.at[ROOT]->m, true);
    tree_run(&t);
    assert_eval(&t, 0);
    tree_free(&t);
}

static void the_mode_comes_back_after_an_error(void **state)
{
    static const rp_module_kind type = { .name = "Refusal", .forward = refuse };
    tree t                           = tree_new();
    rp_tensor *y                     = NULL;
    rp_module *m;

    (void)state;
    assert_ok(t.ctx, rp__module_new(t.ctx, &t.at[MLP]->m, "last", &type, sizeof *m, &m));
    rp_module_train(&t.at[ROOT]->m, false);
    assert_int_equal(rp__module_call(&t.at[ROOT]->m, &t.x, &y), RP_ERR_STATE);
    assert_null(y);
    assert_false(rp__tape_ctx(t.ctx)->eval);
    assert_null(rp__tape_ctx(t.ctx)->scope);
    tree_free(&t);
}

/* ---- regions ---- */

static bool path_ends(const char *path, const rp_module *m, void *user)
{
    (void)m;
    return rp__ends_with(path, user);
}

static bool path_begins(const char *path, const rp_module *m, void *user)
{
    (void)m;
    return !strncmp(path, user, strlen(user));
}

static bool in_a_layer(const char *path, const rp_module *m, void *n_asked)
{
    int64_t layer;

    (void)m;
    ++*(int *)n_asked;
    return rp_path_layer(path, &layer);
}

static void assert_regions(const tree *t, unsigned expected)
{
    for (int i = 0; i < PROBES; i++)
        if (t->at[i]->m.checkpointed != (expected >> i & 1)) fail_msg("'%s' is %sa region", plan[i].path, expected >> i & 1 ? "not " : "");
}

static void of_nested_modules_that_a_condition_holds_for_the_outermost_is_a_region(void **state)
{
    (void)state;
    tree t      = tree_new();
    int n_asked = 0;

    rp_module_checkpoint(&t.at[ROOT]->m, in_a_layer, &n_asked);
    assert_regions(&t, 1 << FIRST | 1 << SECOND);
    assert_int_equal(n_asked, 5);                   /* not about what is inside a region of its own */
    rp_module_checkpoint(&t.at[ROOT]->m, NULL, NULL);
    assert_regions(&t, 0);
    rp_module_checkpoint(&t.at[ROOT]->m, always, NULL);
    assert_regions(&t, 1 << ROOT);
    tree_free(&t);
}

static void conditions_add_up_inside_regions_and_around_them(void **state)
{
    (void)state;
    tree t      = tree_new();
    int n_asked = 0;

    rp_module_checkpoint(&t.at[ROOT]->m, path_ends, "attn");
    assert_regions(&t, 1 << FIRST_ATTN | 1 << SECOND_ATTN);
    rp_module_checkpoint(&t.at[ROOT]->m, in_a_layer, &n_asked);
    assert_regions(&t, 1 << FIRST_ATTN | 1 << SECOND_ATTN | 1 << FIRST | 1 << SECOND);
    rp_module_checkpoint(&t.at[ROOT]->m, path_ends, "mlp");
    assert_regions(&t, 1 << FIRST_ATTN | 1 << SECOND_ATTN | 1 << FIRST | 1 << SECOND | 1 << MLP);
    rp_module_checkpoint(&t.at[SECOND]->m, NULL, NULL);
    assert_regions(&t, 1 << FIRST_ATTN | 1 << FIRST);
    rp_module_checkpoint(&t.at[FIRST]->m, NULL, NULL);
    assert_regions(&t, 0);
    tree_free(&t);
}

/* A list is never called, so as a region it would save nothing and say nothing. */
static void a_list_of_modules_is_no_region_but_its_members_are(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    const rp_norm_config norm = { .n = 8, .eps = 1e-5f };
    static const rp_module_kind root_type = { .name = "Root" };
    rp_module *root, *list, *first, *second;

    assert_ok(ctx, rp__module_new(ctx, NULL, "", &root_type, sizeof *root, &root));
    assert_ok(ctx, rp__module_list_new(root, "layers", &list));
    assert_ok(ctx, rp__norm_new(list, "0", &norm, RP_F32, &first));
    assert_ok(ctx, rp__norm_new(list, "1", &norm, RP_F32, &second));
    assert_int_equal(rp_module_checkpoint(root, path_ends, "layers"), 0);
    assert_false(list->checkpointed);
    assert_int_equal(rp_module_checkpoint(root, path_begins, "layers"), 2);
    assert_true(!list->checkpointed && first->checkpointed && second->checkpointed);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void a_list_of_modules_cannot_be_called(void **state)
{
    (void)state;
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *out = NULL;
    rp_module *root = printed_tree(ctx), *list = root->first_child->next;

    assert_int_equal(rp__module_call(list, NULL, &out), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "'layers' is a list of modules; call its members");
    assert_null(out);
    rp__module_free(root);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_has_the_layer_it_leads_through),
        cmocka_unit_test(a_walk_visits_parents_first_and_nothing_beside_its_root),
        cmocka_unit_test(a_module_knows_its_path_its_parent_and_itself_while_it_runs),
        cmocka_unit_test(a_list_of_modules_cannot_be_called),
        cmocka_unit_test(the_text_of_a_tree_does_not_show_what_is_checkpointed),
        cmocka_unit_test(a_text_without_memory_is_an_error_and_leaves_nothing),
        cmocka_unit_test(a_part_in_evaluation_mode_leaves_the_others_in_theirs),
        cmocka_unit_test(the_mode_comes_back_after_an_error),
        cmocka_unit_test(of_nested_modules_that_a_condition_holds_for_the_outermost_is_a_region),
        cmocka_unit_test(a_list_of_modules_is_no_region_but_its_members_are),
        cmocka_unit_test(conditions_add_up_inside_regions_and_around_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
