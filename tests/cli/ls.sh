reprise ls
# A full disk.
reprise ls >/dev/full || echo "exit $?"
#> gpt2_124m_full               fine-tune every weight of GPT-2 124M on a text file
#> llama3_2_1b_full             fine-tune every weight of Llama 3.2 1B on a text file
#> llama3_70b_full_distributed  fine-tune every weight of Llama 3 70B on 8 ranks of 80 GB; planned without a download
#> llama3_8b_full_distributed   fine-tune every weight of Llama 3 8B on 4 ranks of 24 GB; planned without a download
#> minilm_mlm                   fine-tune MiniLM, a small BERT, on hidden words of a text (tools/fetch-demo minilm)
#> smollm2_135m_budget          fine-tune every weight of SmolLM2 135M on a text file, within 1700 MB
#> smollm2_135m_full            fine-tune every weight of SmolLM2 135M on a text file
#> smollm2_135m_lora            train adapters of rank 8 beside SmolLM2 135M's query and value projections, on a text file
#> smollm2_135m_pirate          teach SmolLM2 135M in 4 bits to answer like a pirate: adapters of rank 16, within 230 MB (make demo)
#> tiny_from_scratch            train a small Llama from random weights on the project's own docs; a minute on a laptop, run from the source tree
#> exit 1
#2> reprise ls: cannot write to the standard output: No space left on device
