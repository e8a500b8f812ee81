/* stages.c -- your own conditions in a library, which recipes and programs can name.
 *
 *   cc -shared -fPIC -o stages.so stages.c $(pkg-config --cflags reprise)
 *
 * It is not linked with Reprise: the program that loads it has the library.
 */
#include <string.h>

#include <reprise/reprise.h>

/* The blocks from `first` to `last`. */
RP_API bool stage(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args);
bool stage(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args)
{
    int64_t number;

    (void)slot;
    return module && !strcmp(rp_module_type(module), "TransformerBlock") && rp_path_layer(path, &number) &&
           number >= rp_args_int(args, "first", 0) && number <= rp_args_int(args, "last", INT64_MAX);
}

/* In a rule: what the named op makes, up to a size. Asked about a module, it holds for none. */
RP_API bool small_results(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args);
bool small_results(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args)
{
    (void)path, (void)module;
    return slot && !strcmp(slot->op, rp_args_text(args, "op", "matmul")) && slot->bytes <= rp_args_int(args, "most_bytes", 0);
}
