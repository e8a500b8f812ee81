# Every recipe that is shipped, with data where it looks for some.
mkdir data docs && cp -r "$SOURCE/examples" .
for data in data/corpus.txt data/paragraphs.jsonl data/paragraphs.val.jsonl docs/page.md; do
    yes '{"text": "the quick brown fox jumps over the lazy dog"}' | head -200 >$data
done
for name in $(ls "$SOURCE/recipes" | sed -n 's/\.yaml$//p'); do
    reprise validate $name || exit
done
reprise validate optimizer.lr=1e-4 tiny_from_scratch batch_size=3
#2> note: names were not checked against the model: there is no 'models/gpt2'
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> 'gpt2_124m_full' is a valid recipe
#2> note: names were not checked against the model: there is no 'models/Llama-3.2-1B'
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> 'llama3_2_1b_full' is a valid recipe
#2> checkpointing: none
#2> sharding: 83 units: tok_embeddings; every TransformerBlock (80); output; and the rest (norm)
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); there is no tokenizer beside the model
#2> 'llama3_70b_full_distributed' is a valid recipe
#2> checkpointing: none
#2> sharding: 35 units: tok_embeddings; every TransformerBlock (32); output; and the rest (norm)
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); there is no tokenizer beside the model
#2> 'llama3_8b_full_distributed' is a valid recipe
#2> note: names were not checked against the model: there is no 'models/minilm'
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> note: 'dataset_val' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> 'minilm_mlm' is a valid recipe
#2> note: names were not checked against the model: there is no 'models/smollm2.gguf'
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> 'smollm2_135m_budget' is a valid recipe
#2> note: names were not checked against the model: there is no 'models/smollm2.gguf'
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> 'smollm2_135m_full' is a valid recipe
#2> note: names were not checked against the model: there is no 'models/smollm2.gguf'
#2> note: 'dataset' was not read: 1 file of 11200 bytes (10.94 KiB); the model's files are not there
#2> 'smollm2_135m_lora' is a valid recipe
#2> note: names were not checked against the model: there is no 'models/smollm2.gguf'
#2> note: 'dataset' was not read: 1 file of 18646 bytes (18.21 KiB); the model's files are not there
#2> note: 'dataset_val' was not read: 1 file of 1842 bytes (1.80 KiB); the model's files are not there
#2> 'smollm2_135m_pirate' is a valid recipe
#2> checkpointing: none
#2> dataset: docs/*.md: 1 file, 1 document, 11201 tokens, 11049 targets; 87 samples, 0 truncated, 0 skipped
#2> first sample: 128 tokens, 127 targets
#2>   masked  {
#2>   target  "text": "the quick brown fox jumps over the lazy dog"}\n{"text": "the quick brown fox jumps over the lazy dog"}\n{"text": "the qu
#2> 'tiny_from_scratch' is a valid recipe
#2> checkpointing: none
#2> dataset: docs/*.md: 1 file, 1 document, 11201 tokens, 11049 targets; 87 samples, 0 truncated, 0 skipped
#2> first sample: 128 tokens, 127 targets
#2>   masked  {
#2>   target  "text": "the quick brown fox jumps over the lazy dog"}\n{"text": "the quick brown fox jumps over the lazy dog"}\n{"text": "the qu
#2> 'tiny_from_scratch' is a valid recipe
