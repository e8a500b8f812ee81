# Every shipped recipe can be planned where no model is, and so can every shipped config; a length beyond the context names the key that extends it.
# ctest: long
for recipe in $(reprise ls | cut -d' ' -f1); do
    reprise plan $recipe --json >planned 2>>err || echo "$recipe: exit $?"
    reprise explain $recipe >explained 2>>err || echo "$recipe: explain: exit $?"
done
sort -u err
reprise train llama3_2_1b_full 2>trained       # its weights are needed
echo "exit $?"
sed "s|$SOURCE/||" trained
for model in $(reprise ls --models | cut -d' ' -f1); do
    reprise plan tiny_from_scratch model.config=$model dtype=bf16 optimizer.name=sgd ~clip_grad_norm max_seq_len=64 batch_size=1 --json 2>err >planned ||
        { echo "$model: exit $?"; cat err; }
    bytes=$(sed 's/.*"by_class": {"param": \([0-9]*\).*/\1/' planned)
    published=$(sed -n "s/^| .$model. | [^|]* | \([0-9,]*\) |.*/\1/p" "$SOURCE/docs/models.md" | tr -d ,)
    [ "$published" = $((bytes / 2)) ] || echo "$model: $((bytes / 2)) parameters; docs/models.md says '$published'"
    echo "$model: $((bytes / 2)) parameters"
done
reprise plan tiny_from_scratch max_seq_len=4096
reprise plan gpt2_124m_full max_seq_len=4096 2>&1 | sed 1d
#> reprise explain: note: 'models/Llama-3.2-1B' is not there: the shapes are those of 'llama3_2_1b'
#> reprise explain: note: 'models/gpt2' is not there: the shapes are those of 'gpt2_124m'
#> reprise explain: note: 'models/minilm' is not there: the shapes are those of 'minilm_l6'
#> reprise explain: note: 'models/smollm2.gguf' is not there: the shapes are those of 'smollm2_135m'
#> reprise plan: note: 'models/Llama-3.2-1B' is not there: the shapes are those of 'llama3_2_1b'
#> reprise plan: note: 'models/gpt2' is not there: the shapes are those of 'gpt2_124m'
#> reprise plan: note: 'models/minilm' is not there: the shapes are those of 'minilm_l6'
#> reprise plan: note: 'models/smollm2.gguf' is not there: the shapes are those of 'smollm2_135m'
#> exit 2
#> recipes/llama3_2_1b_full.yaml:3: 'model.path': cannot open 'models/Llama-3.2-1B': there is no such file
#> recipes/llama3_2_1b_full.yaml:6: note: dataset.path: no file matches 'data/corpus.txt'
#> gemma2_2b: 2614341888 parameters
#> gemma3_1b: 999885952 parameters
#> gpt2_124m: 124439808 parameters
#> llama3_2_1b: 1235814400 parameters
#> llama3_2_3b: 3212749824 parameters
#> llama3_70b: 70553706496 parameters
#> llama3_8b: 8030261248 parameters
#> minilm_l6: 22744506 parameters
#> mistral_7b: 7248023552 parameters
#> mixtral_8x7b: 46702792704 parameters
#> olmo2_7b: 7298617344 parameters
#> phi3_mini: 3821079552 parameters
#> qwen2_5_0_5b: 494032768 parameters
#> qwen3_0_6b: 596049920 parameters
#> qwen3_30b_a3b: 30532122624 parameters
#> qwen3_8b: 8190735360 parameters
#> smollm2_135m: 134515008 parameters
#> tiny_llama: 213632 parameters
#> argument 'max_seq_len=4096': 'max_seq_len' 4096 is beyond the model's context of 1024 tokens: 'model.overrides.n_positions' may extend it
#2> argument 'max_seq_len=4096': 'max_seq_len' 4096 is beyond the model's context of 512 tokens: 'model.overrides.max_position_embeddings' may extend it
