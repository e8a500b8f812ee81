# exit: 2
reprise
#2> usage: reprise COMMAND [ARGUMENT ...]
#2>
#2> Train and fine-tune transformers inside a memory budget.
#2>
#2>   train        run a recipe
#2>   plan         predict a step's memory and time, and fit it to a budget
#2>   sweep        plot step time against the memory budget
#2>   explain      list every saved tensor, its fate and the reason
#2>   calibrate    measure how fast this machine is, for plans
#2>   bench        time kernels and steps on this machine
#2>   view         write the report of a run or a plan as one HTML page
#2>   eval         score a text: loss and perplexity
#2>   generate     continue a prompt
#2>   export       write a model or an adapter as GGUF, for llama.cpp
#2>   inspect      show a model's tensors, config and tokenizer
#2>   tokenize     turn text into token ids
#2>   ops          list the ops and their declarations
#2>   ls           list the shipped recipes
#2>   cp           copy a shipped recipe to edit it
#2>   cat          print a shipped recipe
#2>   validate     check a recipe and print every error
#2>   download     download a model from the Hugging Face hub
#2>
#2> 'reprise COMMAND --help' describes a command; 'reprise --version' prints the version.
