reprise --help
reprise --version
#> usage: reprise COMMAND [ARGUMENT ...]
#>
#> Train and fine-tune transformers inside a memory budget.
#>
#>   train        run a recipe
#>   plan         predict a step's memory and time, and fit it to a budget
#>   sweep        plot step time against the memory budget
#>   explain      list every saved tensor, its fate and the reason
#>   calibrate    measure how fast this machine is, for plans
#>   bench        time kernels and steps on this machine
#>   view         write the report of a run or a plan as one HTML page
#>   eval         score a text: loss and perplexity
#>   generate     continue a prompt
#>   export       write a model or an adapter as GGUF, for llama.cpp
#>   inspect      show a model's tensors, config and tokenizer
#>   tokenize     turn text into token ids
#>   ops          list the ops and their declarations
#>   ls           list the shipped recipes
#>   cp           copy a shipped recipe to edit it
#>   cat          print a shipped recipe
#>   validate     check a recipe and print every error
#>   download     download a model from the Hugging Face hub
#>
#> 'reprise COMMAND --help' describes a command; 'reprise --version' prints the version.
#> reprise 0.1.0
