# A place that cannot be written or read is an error before any work: exit 2, and nothing is written there.
: >file
mkdir folder
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json dataset.path=$SOURCE/recipes/tiny_llama/config.json max_seq_len=16 \
    batch_size=2 max_steps=1 threads=1
exits() {
    "$@"
    echo "exit $?"
}
exits reprise train "$@" output_dir=file
exits reprise train "$@" output_dir=file/deep/er
exits reprise train "$@" output_dir=new/$(printf '%0300d' 0)
exits reprise train "$@" output_dir=new activation_checkpointing.rules='[{path: layers.0, fate: offload}]' \
    activation_checkpointing.offload.path=file/slots
exits reprise plan "$@" -o nowhere/p.json
exits reprise plan "$@" -o folder
exits reprise plan "$@" --output=
exits reprise tokenize folder </dev/null
exits reprise inspect folder
exits reprise view folder -o folder
exits reprise view folder -o nowhere/page.html
ls -A . folder
# A folder that somebody else may write into.
mkdir closed
chmod 555 closed
case $(id -u) in
0) exits setpriv --reuid 65534 --clear-groups -- reprise train "$@" output_dir=closed ;;
*) exits reprise train "$@" output_dir=closed ;;
esac
# A folder's name is the same with a slash behind it.
reprise train "$@" output_dir=folder/run// 2>err
grep '^the model is' err
exits reprise train "$@" output_dir=folder/run
grep output_dir folder/run/config.yaml
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> exit 2
#> .:
#> file
#> folder
#>
#> folder:
#> exit 2
#> the model is in 'folder/run/final'
#> exit 2
#> output_dir: folder/run
#2> argument 'output_dir=file': output_dir 'file' is not a folder
#2> argument 'output_dir=file/deep/er': output_dir 'file/deep/er' cannot be created: 'file' is not a folder
#2> argument 'output_dir=new/000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000': output_dir 'new/000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000' cannot be created in '.': File name too long
#2> argument 'activation_checkpointing.offload.path=file/slots': activation_checkpointing.offload.path 'file/slots' cannot be created: 'file' is not a folder
#2> reprise plan: cannot write 'nowhere/p.json': there is no folder 'nowhere'
#2> reprise plan: cannot write 'folder': it is a folder
#2> reprise plan: cannot write '': a name is missing
#2> reprise tokenize: cannot open 'folder/tokenizer.json': No such file or directory
#2> reprise inspect: cannot find a .safetensors file in 'folder'
#2> reprise view: cannot write 'folder': it is a folder
#2> reprise view: cannot write 'nowhere/page.html': there is no folder 'nowhere'
#2> argument 'output_dir=closed': cannot write into output_dir 'closed': Permission denied
#2> argument 'output_dir=folder/run': output_dir 'folder/run' contains a run already (config.yaml): continue it with resume=auto, or choose another output_dir
