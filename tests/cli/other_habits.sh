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
