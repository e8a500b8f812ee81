reprise validate tiny_from_scratch seed=3 'output_dir=runs/${seed}' --resolved >resolved.yaml
sed "s|$SOURCE/||" resolved.yaml
reprise validate resolved.yaml --resolved | cmp - resolved.yaml
# A recipe may be JSON.
echo '{"model": {"path": "m.gguf"}, "optimizer": {"lr": 1e-8}, "shuffle": false}' >r.json
reprise validate r.json --resolved | grep -E 'lr:|shuffle|path: m'
# The page of all keys.
reprise validate --keys | diff "$SOURCE/docs/recipe.md" -
#> model:
#>   path: null
#>   config: recipes/tiny_llama/config.json
#>   stand_in: null
#>   dropout: null
#>   overrides: {}
#>   quantize: null
#>   mapped: false
#>   adapter: null
#> freeze: []
#> lora:
#>   rank: null
#>   alpha: null
#>   dropout: null
#>   modules: []
#>   whole: []
#>   rslora: false
#>   dora: false
#>   merge: false
#> tokenizer:
#>   path: null
#>   chat_template: null
#> dataset:
#>   path: "docs/*.md"
#>   format: text
#>   column: text
#>   packed: true
#>   cross_documents: false
#>   token_type: u16
#>   prompt_column: null
#>   use_chat_template: true
#>   train_on_input: true
#> run_val_every_n_steps: null
#> sample_prompts: []
#> sample_every: null
#> sample_tokens: 32
#> keep_best: null
#> early_stopping:
#>   patience: null
#>   min_delta: 0
#> max_seq_len: 128
#> batch_size: 8
#> gradient_accumulation_steps: 1
#> epochs: 20
#> max_steps: 200
#> shuffle: true
#> seed: 3
#> dtype: fp32
#> grad_dtype: null
#> optimizer:
#>   name: adamw
#>   lr: 0.003
#>   betas: [0.9, 0.95]
#>   eps: 1e-8
#>   momentum: 0
#>   weight_decay: 0.1
#>   no_decay: ["*norm*", tok_embeddings]
#>   state_dtype: fp32
#>   master_weights: false
#>   rounding: nearest
#> optimizer_in_bwd: false
#> lr_scheduler:
#>   name: cosine
#>   num_warmup_steps: 20
#> clip_grad_norm: 1
#> loss:
#>   num_output_chunks: auto
#>   ignore_index: -100
#>   keep_logits: false
#>   objective: null
#>   mask_probability: 0.15
#>   mask_token_id: null
#> output_dir: runs/3
#> final_format: safetensors
#> save_every_n_steps: null
#> keep_last_n: 2
#> resume: false
#> log_every_n_steps: 10
#> device: cpu
#> threads: 0
#> tensorboard: false
#> profile: false
#> plan: null
#> memory_budget: null
#> memory_limit: null
#> enable_activation_checkpointing: null
#> activation_checkpointing:
#>   mode: none
#>   offload:
#>     to: disk
#>     path: offload/
#>   verify: never
#> dist:
#>   ranks: null
#>   reshard_after_forward: true
#>   prefetch: 1
#>   reduce_behind: 0
#>   replicate_dim: 1
#>   custom_sharded_layers: []
#>   modules_to_wrap: []
#>   sync_each_batch: true
#>   timeout: 10min
#>   state_offload: false
#>   path: m.gguf
#> shuffle: false
#>   lr: 1e-8
