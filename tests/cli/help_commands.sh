# The options of each command, an example, and its exit codes.
for command in bench calibrate download eval explain export generate plan sweep view ls cp cat train validate; do
    reprise $command --help
done
reprise ls -h | head -n 1
#> usage: reprise bench [NAME ...] [--json] [--levels] [--rounds N] [--threads N]
#>
#> Time kernels (through their ops) and training steps on this machine. Each line has the median of the rounds with quartiles,
#> GFLOP/s and GB/s as the op declares them, and the share of the limiting ceiling, measured in the same rounds:
#> multiply-adds from registers in fp32 or bf16, or memory. A step also has the share of time that its matrix products need
#> alone. NAME is one of --list, a prefix that ends before a colon (matmul, attention:2x512x9/3x64, step), or a glob
#> ('*:bf16:dw'). Without NAME a usual set runs for about a minute. Run nothing else meanwhile.
#>
#>       --json                   print one JSON object
#>       --list                   print the names of all benches
#>       --levels                 run all kernels of this CPU: base, AVX2, AVX-512, …
#>       --rounds N               rounds of each bench (default: as many as fit into 0.3 s)
#>       --threads N              threads (default: all cores)
#>   -h, --help                   print this
#>
#> example: reprise bench matmul attention --rounds 5
#> usage: reprise calibrate
#>
#> Measure how fast this machine runs each op, forward and backward, in each dtype, and the bandwidth of its memory and of
#> the disk of the current folder. It takes a minute; run nothing else meanwhile. Before that, plans use a built-in table for
#> the CPU. Communication between ranks is not measured, because that needs several ranks: plans assume 2.2 GB/s a rank, or
#> take 'link', 'node', 'node_link' and 'latency' of --device. The table is stored for this CPU and number of threads in
#> $REPRISE_COSTS, else in $XDG_CACHE_HOME/reprise or ~/.cache/reprise. No other command changes it.
#>
#>       --quick                  take seconds, not a minute: fewer sizes, each measured once
#>       --threads N              threads of the runs to predict (default: all cores)
#>   -h, --help                   print this
#>
#> example: reprise calibrate --quick
#> usage: reprise download REPO[@REVISION] [-o DIR] [--file NAME]
#>
#> Download a model from the Hugging Face hub: its config, tokenizer and weights in safetensors, or one file. An interrupted
#> download continues where it stopped. Every file is compared with the digest on the hub. DIR is printed at the end.
#> Environment: HF_TOKEN for gated or private models, HF_ENDPOINT for a hub other than huggingface.co.
#>
#>   -o, --output DIR             folder to download to (default: models/NAME)
#>   -f, --file NAME              download only this file, for example a .gguf
#>       --retries N              retries in a row that receive nothing, before giving up (default: 5)
#>       --retry-wait SECONDS     wait before the first retry, doubled before each further one (default: 1)
#>   -h, --help                   print this
#>
#> example: reprise download HuggingFaceTB/SmolLM2-135M
#> usage: reprise eval MODEL --data PATH [KEY=VALUE ...]
#>
#> Score a text: the loss (mean of -log p of its tokens, in nats) and the perplexity (its exponential). Each file, plain or packed
#> with gzip or zstd, is one document; neither bos nor eos is added. It is cut into windows of max_seq_len tokens (default: the
#> model's context), which are scored separately; the last one may be shorter. A folder stands for its files that end in .txt,
#> .text or .md, also in folders below. MODEL is a Hugging Face folder, a .gguf file or the folder of an adapter.
#> With dataset.format=jsonl, chat, alpaca or tokens, the targets of the data are scored as a run of a recipe with these keys
#> validates with it: dataset.column, dataset.prompt_column, dataset.train_on_input, dataset.packed and so on.
#> Keys: max_seq_len, dataset, tokenizer.chat_template, loss.ignore_index, dtype (default: fp32), threads, tokenizer.path,
#> model.overrides, model.adapter, model.quantize (default: keep, if the CPU has AVX-512), model.mapped.
#>
#>       --data PATH              a file, a folder or a glob, as in dataset.path
#>       --json                   print one JSON object
#>   -h, --help                   print this
#>
#> example: reprise eval models/SmolLM2-135M --data text.txt
#> usage: reprise explain CONFIG [KEY=VALUE ...] [--json] [--graph -o FILE] [--bytes] [--allow-plugins]
#>
#> Print the fate of every slot (saved tensor) of a recipe's step, the rule or region that decided it, and the cost of its
#> replay; the totals of modules and memory classes; and the owners of the memory at the peak. Neither weights nor data
#> are read. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key, ~KEY removes one.
#>
#>       --json                   print one JSON object, with every slot separately
#>       --graph                  write the step as a graph for other planners, to the file of -o
#>   -o, --output FILE            file of --graph
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise explain smollm2_135m_full memory_budget=1700MB
#> usage: reprise export MODEL|RUN_DIR --gguf TYPE -o FILE [--adapter] [--name TEXT] [--bytes]
#>
#> Write a model as a GGUF file for llama.cpp, with its adapter merged in, if it has one. MODEL is a Hugging Face folder, a .gguf
#> file or the folder of an adapter, RUN_DIR the folder of a run, which stands for its final/. Vectors, norms and routers are
#> always F32. A model from GGUF keeps its metadata; tensors that have the type already are copied byte for byte.
#>
#>   -g, --gguf TYPE              type of the matrices: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, or keep: each as in its GGUF file
#>   -o, --output FILE            the file to write; it appears when it is complete
#>   -a, --adapter                write the adapter alone instead of merging it
#>   -n, --name TEXT              the name in the file (default: that of the folder or of the GGUF file)
#>       --bytes                  print exact sizes, in bytes
#>   -h, --help                   print this
#>
#> example: reprise export runs/my_run --gguf Q8_0 -o my_model.gguf
#> usage: reprise generate MODEL --prompt TEXT [--chat] [KEY=VALUE ...]
#>
#> Print the continuation of a prompt, without the prompt, until eos, N tokens or the end of the model's context. bos is put
#> first if the tokenizer adds it. On a terminal, control characters in the text are made visible. MODEL is a Hugging
#> Face folder, a .gguf file or the folder of an adapter.
#> Keys: dtype (default: bf16), threads, tokenizer.path, model.overrides, model.adapter, model.quantize
#> (default: keep, if the CPU has AVX-512), model.mapped.
#>
#>   -p, --prompt TEXT            beginning of the text
#>   -c, --chat                   TEXT is a user message: apply the model's chat template
#>   -n, --max-new-tokens N       generate at most N tokens (default: 128)
#>   -t, --temperature T          sampling temperature; 0 is greedy (default: 0.8)
#>   -k, --top-k K                sample from the K most likely tokens; 0: from all (default: 40)
#>   -s, --seed S                 seed for sampling; the same seed gives the same text (default: 0)
#>   -h, --help                   print this
#>
#> example: reprise generate models/SmolLM2-135M --prompt 'Once upon a time' -n 64
#> usage: reprise plan CONFIG [KEY=VALUE ...] [--json] [--device SPEC] [--find | --fit | -o FILE] [--bytes] [--allow-plugins]
#>        reprise plan --graph GRAPH [memory_budget=BYTES] [--evaluate PLAN] [--json] [-o FILE] [--bytes]
#>
#> Predict whether a recipe's step fits its memory budget (exact to the byte), where its peak is, the time that fitting
#> costs, and lower bounds of that time. Neither weights nor data are read. Exit code 3: no plan fits.
#>
#>       --json                   print one JSON object
#>       --device SPEC            predict for another machine: h100, or 'name=…, memory=80GB, flops=…, bandwidth=…, link=100GB/s, node=8, node_link=25GB/s, latency=2us'
#>       --find                   find the fastest settings that fit: ranks, wrapping, resharding, batch size, gradient accumulation
#>       --fit                    list the ways to train the model that fit: all weights or adapters, the optimizer's states, length and batch
#>   -o, --output FILE            write the plan to FILE, for the key 'plan' of a recipe and for 'reprise view'
#>       --graph                  plan the graph in the file GRAPH, from 'reprise explain --graph' or another program
#>       --evaluate PLAN          with --graph: compute peak, time and bounds of the plan in the file PLAN instead of planning
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise plan smollm2_135m_full memory_budget=1700MB
#> usage: reprise sweep CONFIG [KEY=VALUE ...] [--json] [--points N] [--measure [--pairs N] | --device SPEC] [--bytes] [--allow-plugins]
#>
#> Predict the memory and time of a recipe's step at budgets from the smallest that a plan fits to the memory of keeping
#> everything, and compare them with the usual modes. Neither weights nor data are read. With --measure, run the steps in
#> pairs with mode none, on the recipe's weights and data, with a learning rate of 0 and without writing files.
#>
#>       --json                   print one JSON object
#>   -n, --points N               budgets on the curve (default: 20; with --measure 8)
#>       --measure                run each point, paired with steps that keep everything
#>       --pairs N                pairs of steps at each point, with --measure (default: 15)
#>       --device SPEC            predict for another machine, as in 'reprise plan'
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise sweep smollm2_135m_full --points 10
#> usage: reprise view RUN_DIR|PLAN [-o FILE.html] [--device SPEC] [--allow-plugins]
#>
#> Write the report of a run or a plan: memory over the step, the arena, the fate of every slot, the curve of budgets, the
#> losses. It is one HTML page that needs no other file. A run writes the same page without the curve. PLAN is a file from
#> 'reprise plan -o'.
#>
#>   -o, --output FILE            file of the page (default: report.html in RUN_DIR, or PLAN.html)
#>       --device SPEC            predict for another machine, as in 'reprise plan' (default: that of the plan, if it has a name)
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise view runs/default
#> usage: reprise ls [--models]
#>
#> List the shipped recipes with a summary of each.
#>
#>       --models                 list the shipped model configs, for 'model.config', instead
#>   -h, --help                   print this
#>
#> example: reprise ls --models
#> usage: reprise cp NAME DEST
#>
#> Copy a shipped recipe to the file or folder DEST.
#>
#>   -n, --no-clobber             do not overwrite an existing file
#>       --make-parents           create the folders of DEST
#>   -h, --help                   print this
#>
#> example: reprise cp smollm2_135m_full my_recipe.yaml
#> usage: reprise cat NAME
#>
#> Print a shipped recipe.
#>
#>   -h, --help                   print this
#>
#> example: reprise cat smollm2_135m_full
#> usage: reprise train CONFIG [KEY=VALUE ...] [--nproc N] [--bytes] [--allow-plugins]
#>
#> Train the model of a recipe. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key,
#> ~KEY removes one. Metrics, states, the trained model and a report are written under output_dir.
#> SIGINT, SIGTERM, SIGHUP and SIGXCPU finish the step and save a state; 'resume=auto' continues from it.
#>
#>       --nproc N                run on N ranks of this machine, with its mpirun
#>       --bytes                  print exact sizes, in bytes
#>       --allow-plugins          load the plug-in libraries that the recipe names; they run code
#>   -h, --help                   print this
#>
#> example: reprise train smollm2_135m_full max_steps=4
#> usage: reprise validate CONFIG [KEY=VALUE ...]
#>
#> Check a recipe and print every error with its line. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a
#> key, ~KEY removes one. If the files of the model exist, names in the recipe are checked against the model, and the
#> modules that become regions are printed. The data files must exist. Up to 16 MiB of data is read as a run reads it, and
#> counted, and its first sample is printed: targets, and masked tokens, which the loss does not count. Larger JSON data is read
#> up to its first objects. The limits of chat templates apply.
#>
#>       --resolved               print the whole recipe with all defaults
#>       --data                   read all data, of any size (default: up to 16 MiB)
#>       --keys                   print every key of a recipe, its type and default; takes no CONFIG
#>   -h, --help                   print this
#>
#> example: reprise validate my_recipe.yaml memory_budget=8GiB
#> usage: reprise ls [--models]
