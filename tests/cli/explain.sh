# The slots of a step, why each has its fate, and what a run then measures. Peaks depend on the machine: they are compared, not shown.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
ac=activation_checkpointing
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text max_seq_len=16 batch_size=2 max_steps=2 \
    threads=1
slots() {
    reprise explain "$@" >all || exit
    sed -n '/^saved/p; /^replays/p; /^slot /,/^$/p' all
}
number() { sed "s/.*\"$1\": *\([0-9]*\).*/\1/" "$2" | tail -1; }
same() {
    reprise explain "$@" --json >explained
    reprise train "$@" output_dir=out 2>err || cat err
    for pair in peak_bytes=peak_memory_active saved_bytes=saved_bytes recompute_flops=recompute_flops step_flops=step_flops; do
        head -c 600 explained >head      # before the lists, which have keys of these names too
        [ "$(number ${pair%=*} head)" = "$(number ${pair#*=} out/metrics.jsonl)" ] || echo "${pair%=*} differs"
    done
    rm -r out
}
slots "$@"
slots "$@" $ac.mode=selective_op $ac.conditions='[{path: "*.attn"}]' $ac.rules='[{path: layers.1, op: swiglu, fate: keep}]'
REPRISE_TEST_DEVICE=${REPRISE_TEST_DEVICE:-cpu} slots "$@" $ac.rules='[{path: "*.mlp", op: matmul, fate: offload}, {op: dropout, fate: keep}]' $ac.offload.to=memory
same "$@"
same "$@" enable_activation_checkpointing=true
same "$@" $ac.mode=selective_layer $ac.every=2 $ac.rules='[{type: Norm, fate: recompute}]'
cat >rules.yaml <<YAML
model: {config: $SOURCE/recipes/tiny_llama/config.json}
max_seq_len: 16
activation_checkpointing:
  mode: full
  rules:
  - {path: "*.attn", op: matmul, fate: keep}
  - {path: layers.0, fate: prefer_recompute}
YAML
slots rules.yaml | grep rules.yaml
grep -c '^- ' all >/dev/null && sed -n 's/^\(peak\) .*/\1/p; s/^\(module, each\) .*/\1/p; s/^\(at the peak\) .*/\1/p' all
# The emulated GPU has kernels for each op of a Llama, and so has the CPU.
for device in cpu emu; do
    for command in plan explain; do REPRISE_TEST_DEVICE=$device reprise $command "$@" --json | grep -o '"host_fallback_ops": [0-9]*'; done
done
#> saved when the forward ends 531 KiB: 60 slots kept; 0 recomputed
#> replays 0.000 MFLOPs a step, 0.0 % of the 44.484 without them
#> slot                               shape                    size each  count      MFLOPs  fate
#> layers.*.mlp.gate matmul out 0     fp32 [2, 16, 192]         24.0 KiB      4       0.786  keep: no region
#> layers.*.mlp.up matmul out 0       fp32 [2, 16, 192]         24.0 KiB      4       0.786  keep: no region
#> layers.*.mlp swiglu out 0          fp32 [2, 16, 192]         24.0 KiB      4       0.098  keep: no region
#> layers.*.attn_norm rmsnorm out 0   fp32 [2, 16, 64]          8.00 KiB      4       0.008  keep: no region
#> layers.*.attn rotary out 0         fp32 [2, 16, 4, 16]       8.00 KiB      4       0.006  keep: no region
#> layers.*.attn attention out 0      fp32 [2, 16, 4, 16]       8.00 KiB      4       0.070  keep: no region
#> layers.* add out 0                 fp32 [2, 16, 64]          8.00 KiB      4       0.002  keep: no region
#> layers.*.mlp_norm rmsnorm out 0    fp32 [2, 16, 64]          8.00 KiB      4       0.008  keep: no region
#> layers.* add call 1 out 0          fp32 [2, 16, 64]          8.00 KiB      4       0.002  keep: no region
#> layers.*.attn.v matmul out 0       fp32 [2, 16, 32]          4.00 KiB      4       0.131  keep: no region
#> layers.*.attn rotary call 1 out 0  fp32 [2, 16, 2, 16]       4.00 KiB      4       0.003  keep: no region
#> tok_embeddings embedding out 0     fp32 [2, 16, 64]          8.00 KiB      1       0.000  keep: no region
#> norm rmsnorm out 0                 fp32 [2, 16, 64]          8.00 KiB      1       0.008  keep: no region
#> layers.*.attn attention by 0       fp32 [2, 4, 16]          512 bytes      4       0.070  keep: no region
#> layers.*.attn_norm rmsnorm by 0    fp32 [32]                128 bytes      4       0.008  keep: no region
#> layers.*.mlp_norm rmsnorm by 0     fp32 [32]                128 bytes      4       0.008  keep: no region
#> norm rmsnorm by 0                  fp32 [32]                128 bytes      1       0.008  keep: no region
#> output linear_cross_entropy by 0   fp32 [32]                128 bytes      1       1.176  keep: no region
#>
#> saved when the forward ends 394 KiB: 41 slots kept; 31 recomputed (8 regions)
#> replays 0.406 MFLOPs a step, 0.9 % of the 44.484 without them
#> slot                               shape                    size each  count      MFLOPs  fate
#> layers.*.mlp.gate matmul out 0     fp32 [2, 16, 192]         24.0 KiB      4       0.786  keep: activation_checkpointing.mode=…
#> layers.*.mlp.up matmul out 0       fp32 [2, 16, 192]         24.0 KiB      4       0.786  keep: activation_checkpointing.mode=…
#> layers.*.attn.q matmul out 0       fp32 [2, 16, 64]          8.00 KiB      4       0.262  keep: activation_checkpointing.mode=…
#> layers.*.attn attention out 0      fp32 [2, 16, 4, 16]       8.00 KiB      4       0.070  keep: activation_checkpointing.mode=…
#> layers.*.attn.output matmul out 0  fp32 [2, 16, 64]          8.00 KiB      4       0.262  keep: activation_checkpointing.mode=…
#> layers.* add call 1 out 0          fp32 [2, 16, 64]          8.00 KiB      4       0.002  keep: read outside layers.*
#> layers.1.mlp swiglu out 0          fp32 [2, 16, 192]         24.0 KiB      1       0.098  keep: activation_checkpointing.rules=…
#> layers.*.attn.k matmul out 0       fp32 [2, 16, 32]          4.00 KiB      4       0.131  keep: activation_checkpointing.mode=…
#> layers.*.attn.v matmul out 0       fp32 [2, 16, 32]          4.00 KiB      4       0.131  keep: activation_checkpointing.mode=…
#> tok_embeddings embedding out 0     fp32 [2, 16, 64]          8.00 KiB      1       0.000  keep: no region
#> norm rmsnorm out 0                 fp32 [2, 16, 64]          8.00 KiB      1       0.008  keep: no region
#> layers.*.attn attention by 0       fp32 [2, 4, 16]          512 bytes      4       0.070  keep: activation_checkpointing.mode=…
#> norm rmsnorm by 0                  fp32 [32]                128 bytes      1       0.008  keep: no region
#> output linear_cross_entropy by 0   fp32 [32]                128 bytes      1       1.176  keep: no region
#> layers.*.mlp swiglu out 0          fp32 [2, 16, 192]         24.0 KiB      3       0.098  recompute: region layers.*
#> layers.*.attn_norm rmsnorm out 0   fp32 [2, 16, 64]          8.00 KiB      4       0.008  recompute: region layers.*
#> layers.*.attn rotary out 0         fp32 [2, 16, 4, 16]       8.00 KiB      4       0.006  recompute: region layers.*.attn
#> layers.* add out 0                 fp32 [2, 16, 64]          8.00 KiB      4       0.002  recompute: region layers.*
#> layers.*.mlp_norm rmsnorm out 0    fp32 [2, 16, 64]          8.00 KiB      4       0.008  recompute: region layers.*
#> layers.*.attn rotary call 1 out 0  fp32 [2, 16, 2, 16]       4.00 KiB      4       0.003  recompute: region layers.*.attn
#> layers.*.attn_norm rmsnorm by 0    fp32 [32]                128 bytes      4       0.008  recompute: region layers.*
#> layers.*.mlp_norm rmsnorm by 0     fp32 [32]                128 bytes      4       0.008  recompute: region layers.*
#>
#> saved when the forward ends 339 KiB: 52 slots kept; 0 recomputed; 8 offloaded, 192 KiB
#> replays 0.000 MFLOPs a step, 0.0 % of the 44.484 without them
#> slot                               shape                    size each  count      MFLOPs  fate
#> layers.*.mlp swiglu out 0          fp32 [2, 16, 192]         24.0 KiB      4       0.098  keep: no region
#> layers.*.attn_norm rmsnorm out 0   fp32 [2, 16, 64]          8.00 KiB      4       0.008  keep: no region
#> layers.*.attn rotary out 0         fp32 [2, 16, 4, 16]       8.00 KiB      4       0.006  keep: no region
#> layers.*.attn attention out 0      fp32 [2, 16, 4, 16]       8.00 KiB      4       0.070  keep: no region
#> layers.* add out 0                 fp32 [2, 16, 64]          8.00 KiB      4       0.002  keep: no region
#> layers.*.mlp_norm rmsnorm out 0    fp32 [2, 16, 64]          8.00 KiB      4       0.008  keep: no region
#> layers.* add call 1 out 0          fp32 [2, 16, 64]          8.00 KiB      4       0.002  keep: no region
#> layers.*.attn.v matmul out 0       fp32 [2, 16, 32]          4.00 KiB      4       0.131  keep: no region
#> layers.*.attn rotary call 1 out 0  fp32 [2, 16, 2, 16]       4.00 KiB      4       0.003  keep: no region
#> tok_embeddings embedding out 0     fp32 [2, 16, 64]          8.00 KiB      1       0.000  keep: no region
#> norm rmsnorm out 0                 fp32 [2, 16, 64]          8.00 KiB      1       0.008  keep: no region
#> layers.*.attn attention by 0       fp32 [2, 4, 16]          512 bytes      4       0.070  keep: no region
#> layers.*.attn_norm rmsnorm by 0    fp32 [32]                128 bytes      4       0.008  keep: no region
#> layers.*.mlp_norm rmsnorm by 0     fp32 [32]                128 bytes      4       0.008  keep: no region
#> norm rmsnorm by 0                  fp32 [32]                128 bytes      1       0.008  keep: no region
#> output linear_cross_entropy by 0   fp32 [32]                128 bytes      1       1.176  keep: no region
#> layers.*.mlp.gate matmul out 0     fp32 [2, 16, 192]         24.0 KiB      4       0.786  offload: activation_checkpointing.rules=…
#> layers.*.mlp.up matmul out 0       fp32 [2, 16, 192]         24.0 KiB      4       0.786  offload: activation_checkpointing.rules=…
#>
#> layers.*.attn.q matmul out 0       bf16 [2, 16, 64]          4.00 KiB      4       0.262  keep: rules.yaml:6
#> layers.*.attn.output matmul out 0  bf16 [2, 16, 64]          4.00 KiB      4       0.262  keep: rules.yaml:6
#> layers.*.attn.k matmul out 0       bf16 [2, 16, 32]          2.00 KiB      4       0.131  keep: rules.yaml:6
#> layers.*.attn.v matmul out 0       bf16 [2, 16, 32]          2.00 KiB      4       0.131  keep: rules.yaml:6
#> layers.0 add call 1 out 0          bf16 [2, 16, 64]          4.00 KiB      1       0.002  keep: rules.yaml:7, but read outside layers.0
#> layers.0.mlp.gate matmul out 0     bf16 [2, 16, 192]         12.0 KiB      1       0.786  recompute: rules.yaml:7
#> layers.0.mlp.up matmul out 0       bf16 [2, 16, 192]         12.0 KiB      1       0.786  recompute: rules.yaml:7
#> layers.0.mlp swiglu out 0          bf16 [2, 16, 192]         12.0 KiB      1       0.098  recompute: rules.yaml:7
#> layers.0.attn_norm rmsnorm out 0   bf16 [2, 16, 64]          4.00 KiB      1       0.008  recompute: rules.yaml:7
#> layers.0.attn rotary out 0         bf16 [2, 16, 4, 16]       4.00 KiB      1       0.006  recompute: rules.yaml:7
#> layers.0.attn attention out 0      bf16 [2, 16, 4, 16]       4.00 KiB      1       0.070  recompute: rules.yaml:7
#> layers.0 add out 0                 bf16 [2, 16, 64]          4.00 KiB      1       0.002  recompute: rules.yaml:7
#> layers.0.mlp_norm rmsnorm out 0    bf16 [2, 16, 64]          4.00 KiB      1       0.008  recompute: rules.yaml:7
#> layers.0.attn rotary call 1 out 0  bf16 [2, 16, 2, 16]       2.00 KiB      1       0.003  recompute: rules.yaml:7
#> layers.0.attn attention by 0       fp32 [2, 4, 16]          512 bytes      1       0.070  recompute: rules.yaml:7
#> layers.0.attn_norm rmsnorm by 0    fp32 [32]                128 bytes      1       0.008  recompute: rules.yaml:7
#> layers.0.mlp_norm rmsnorm by 0     fp32 [32]                128 bytes      1       0.008  recompute: rules.yaml:7
#> peak
#> module, each
#> at the peak
#> "host_fallback_ops": 0
#> "host_fallback_ops": 0
#> "host_fallback_ops": 0
#> "host_fallback_ops": 0
#2> argument 'activation_checkpointing.rules=[{path: "*.mlp", op: matmul, fate: offload}, {op: dropout, fate: keep}]':1: note: this model never calls the op 'dropout'
