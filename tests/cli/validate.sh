# Every recipe that is shipped, with data where it looks for some.
mkdir data docs && cp -r "$SOURCE/examples" .
for data in data/corpus.txt data/paragraphs.jsonl data/paragraphs.val.jsonl docs/page.md; do
    yes '{"text": "the quick brown fox jumps over the lazy dog"}' | head -200 >$data
done
for name in $(ls "$SOURCE/recipes" | sed -n 's/\.yaml$//p'); do
    reprise validate $name || exit
done
reprise validate optimizer.lr=1e-4 tiny_from_scratch batch_size=3
