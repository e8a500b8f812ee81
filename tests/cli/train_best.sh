# exit: 2
# The weights of the lowest validation loss are kept, and a run whose losses no longer fall ends with success.
printf 'one two three four five six seven eight %.0s' 1 2 3 4 5 6 7 8 9 >text
printf 'nine ten six seven two eight four one %.0s' 1 2 3 4 >val
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=text dataset_val.path=val run_val_every_n_steps=2 max_seq_len=16 batch_size=2 threads=1 \
    max_steps=40 epochs=99 optimizer.lr=0.03 log_every_n_steps=100 output_dir=out
ends() { "$@" 2>&1 | sed -n 's/val_loss [0-9.]* at step [0-9]*/val_loss … at step …/; s/after step [0-9]*:/after step …:/; /^stopped\|^the /p; s/.*\(the run has stopped.*\)/\1/p'; }
ends reprise train "$@" keep_best=val_loss early_stopping='{patience: 3, min_delta: 0.01}'
ls out out/best
ends reprise train "$@" keep_best=val_loss early_stopping.patience=3 resume=auto
grep -o 'lowest validation loss' out/report.html
# The keys need validations.
reprise train "$@" output_dir=other keep_best=val_loss '~run_val_every_n_steps'
reprise train "$@" output_dir=other early_stopping.patience=2 '~run_val_every_n_steps'
reprise validate "$@" output_dir=other early_stopping.min_delta=1 2>&1 | grep early
reprise validate "$@" output_dir=other load_best_model_at_end=true early_stopping_patience=1
#> stopped early  after step …: 3 validations in a row without a lower loss
#> the model is in 'out/final'
#> the best one is in 'out/best': val_loss … at step …
#> out:
#> best
#> config.yaml
#> final
#> metrics.jsonl
#> plan.json
#> report.html
#> state
#>
#> out/best:
#> config.json
#> model.safetensors
#> tokenizer.json
#> the run has stopped early: its last 3 validations were not lower; raise 'early_stopping.patience' to continue it
#> stopped early  after step …: 3 validations in a row without a lower loss
#> the model is in 'out/final'
#> the best one is in 'out/best': val_loss … at step …
#> lowest validation loss
#> lowest validation loss
#> argument 'early_stopping.min_delta=1': note: 'early_stopping.min_delta' has no effect: 'early_stopping.patience' is not set
#2> argument 'keep_best=val_loss': 'keep_best' needs 'run_val_every_n_steps'
#2> argument 'dataset_val.path=val': note: 'dataset_val.path' has no effect: 'run_val_every_n_steps' is not set
#2> argument 'early_stopping.patience=2': 'early_stopping.patience' needs 'run_val_every_n_steps'
#2> argument 'dataset_val.path=val': note: 'dataset_val.path' has no effect: 'run_val_every_n_steps' is not set
#2> argument 'load_best_model_at_end=true': unknown key 'load_best_model_at_end': here it is 'keep_best'
#2> argument 'early_stopping_patience=1': unknown key 'early_stopping_patience': here it is 'early_stopping.patience'
