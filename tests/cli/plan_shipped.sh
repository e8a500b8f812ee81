# Every shipped recipe can be planned where no model is, and so can every shipped config; a length beyond the context names the key that extends it.
for recipe in $(reprise ls | cut -d' ' -f1); do
    case ${REPRISE_TEST_FEW:+few}-$recipe in few-llama3_70b_*) continue ;; esac        # it takes longer than all others
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
