# What users of git, torchtune and transformers type is understood, or answered with what to type here.
reprise help | head -1
reprise help ls
reprise help nothing
echo "exit $?"
exits() {
    "$@"
    echo "exit $?"
}
exits reprise run tiny_from_scratch
exits reprise train tiny_from_scratch --max-steps 3
exits reprise train tiny_from_scratch --output_dir=x
exits reprise plan tiny_from_scratch --learning_rate 1e-4
exits reprise plan tiny_from_scratch --deviec h100
exits reprise ops --max_steps 3
exits reprise validate tiny_from_scratch per_device_train_batch_size=4 gradient_checkpointing=true logging_steps=1 dataset.path=$SOURCE/recipes/tiny_llama/config.json
#> usage: reprise COMMAND [ARGUMENT ...]
#> usage: reprise ls [--models]
#>
#> List the shipped recipes with a summary of each.
#>
#>       --models                 list the shipped model configs, for 'model.config', instead
#>   -h, --help                   print this
#>
#> example: reprise ls --models
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#2> reprise: unknown command 'nothing'
#2> try 'reprise --help'
#2> reprise: unknown command 'run' (did you mean 'train'?)
#2> try 'reprise --help'
#2> reprise train: unknown option '--max-steps': a key is set as max_steps=VALUE
#2> try 'reprise train --help'
#2> reprise train: unknown option '--output_dir': a key is set as output_dir=VALUE
#2> try 'reprise train --help'
#2> reprise plan: unknown option '--learning_rate': here it is 'optimizer.lr'
#2> try 'reprise plan --help'
#2> reprise plan: unknown option '--deviec' (did you mean '--device'?)
#2> try 'reprise plan --help'
#2> reprise ops: unknown option '--max_steps'
#2> try 'reprise ops --help'
#2> argument 'per_device_train_batch_size=4': unknown key 'per_device_train_batch_size': here it is 'batch_size'
#2> argument 'gradient_checkpointing=true': unknown key 'gradient_checkpointing': here it is 'enable_activation_checkpointing'
#2> argument 'logging_steps=1': unknown key 'logging_steps': here it is 'log_every_n_steps'
