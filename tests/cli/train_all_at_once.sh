# exit: 2
# An output_dir that holds a run hides no other error, and another error does not hide it. Nothing is written.
mkdir out && echo mine >out/config.yaml
train() { reprise train tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json output_dir=out "$@"; }
train dataset.path=absent.txt optimizer.no_decay='["*.z"]'
train dataset.path=absent.txt batch_size=two
train dataset.path=out/config.yaml max_seq_len=99999 activation_checkpointing.rules='[{op: add, fate: offload}]' activation_checkpointing.offload.path=out/config.yaml
# A wrong value leads to no second error: it is unknown whether the run is to be resumed, or which format the data has.
train dataset.path=absent.txt resume='[1]' dataset.format=jsonll
code=$?
cat out/config.yaml
ls -A . out
exit $code
