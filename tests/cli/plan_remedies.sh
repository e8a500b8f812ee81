# ctest: long
# Where nothing fits, settings that need less memory are listed: each fits in the bytes that it names, and one that a recipe has already is not named.
unset REPRISE_TEST_DEVICE     # a device apart takes windows of optimizer states from the host
set -- tiny_from_scratch model.config=$SOURCE/recipes/tiny_llama/config.json max_seq_len=16 batch_size=2 threads=1 memory_budget=1MB
remedies() { reprise plan "$@" --bytes 2>/dev/null | sed -n '/^settings that need less memory/,/^$/p' | sed '1,2d;/^$/d;s/  fits  //'; }
names() { remedies "$@" | while read -r bytes saves setting; do echo "$setting"; done | sort; }
least_of() { reprise plan "$@" --bytes 2>/dev/null | sed -n 's/^least budget  *\([0-9]*\) bytes ([0-9.]* [KM]iB);.*/\1/p'; }
holds() {
    before= all=$(least_of "$@")
    remedies "$@" | while read -r bytes saves setting; do
        reprise plan "$@" $setting memory_budget=$bytes >/dev/null 2>err || { echo "$setting does not fit in $bytes:" && cat err; }
        [ "$saves" -eq $((all - bytes)) ] && [ "$saves" -gt 0 ] && [ "$saves" -le "${before:-$saves}" ] || echo "$setting: $saves bytes after ${before:-none}"
        before=$saves
    done
}
for more in clip_grad_norm=1.0 'optimizer_in_bwd=true clip_grad_norm=null' 'optimizer.state_dtype=bf16 dist.state_offload=true' 'optimizer.name=sgd optimizer.momentum=0.9 batch_size=1' \
    activation_checkpointing.mode=full; do
    echo "$more:" $(names "$@" $more | paste -sd,)
    holds "$@" $more
done
# In JSON, too; none where a plan fits.
reprise plan "$@" --json 2>/dev/null | grep -o '"setting": "[^"]*", "least_budget_bytes": [0-9]*, "saved_bytes": [0-9]*' | sed 's/[0-9]\{4,\}/BYTES/g' | sort
reprise plan "$@" memory_budget=1GB --json | grep -o '"remedies": [^,}]*'
reprise plan "$@" memory_budget=1GB | grep "^settings that need less memory" || echo "nothing is listed"
# A printed size is rounded up where it is a budget, so it fits as it stands. --bytes prints it to the byte.
least=$(reprise plan "$@" 2>/dev/null | sed -n 's/^least budget  *\([0-9.]* [KM]iB\);.*/\1/p')
reprise plan "$@" memory_budget="$least" >/dev/null && echo "the least budget fits as it is printed"
exact=$(least_of "$@")
reprise plan "$@" memory_budget=$exact >/dev/null && reprise plan "$@" memory_budget=$((exact - 1)) >/dev/null 2>&1 || echo "and one byte less does not: $?"
reprise plan "$@" 2>/dev/null | sed -n 's/^  *\([0-9.]* [KM]iB\)  *[0-9.]* [KM]iB  *\([a-z].*=.*\)/\1 \2/p' | while read -r size unit setting; do
    reprise plan "$@" $setting memory_budget="$size $unit" >/dev/null 2>err || { echo "$setting does not fit in $size $unit:" && cat err; }
done
#> clip_grad_norm=1.0: batch_size=1,dist.state_offload=true,lora.rank=16,max_seq_len=8,optimizer.name=sgd,optimizer.state_dtype=bf16,optimizer.state_dtype=int8,optimizer_in_bwd=true clip_grad_norm=null
#> optimizer_in_bwd=true clip_grad_norm=null: batch_size=1,dist.state_offload=true,lora.rank=16,max_seq_len=8,optimizer.name=sgd,optimizer.state_dtype=bf16,optimizer.state_dtype=int8
#> optimizer.state_dtype=bf16 dist.state_offload=true: batch_size=1,lora.rank=16,max_seq_len=8,optimizer.name=sgd,optimizer.state_dtype=int8,optimizer_in_bwd=true clip_grad_norm=null
#> optimizer.name=sgd optimizer.momentum=0.9 batch_size=1: dist.state_offload=true,lora.rank=16,max_seq_len=8,optimizer.name=sgd optimizer.momentum=0,optimizer.state_dtype=bf16,optimizer.state_dtype=int8,optimizer_in_bwd=true clip_grad_norm=null
#> activation_checkpointing.mode=full: batch_size=1 activation_checkpointing.mode=auto,dist.state_offload=true activation_checkpointing.mode=auto,lora.rank=16 activation_checkpointing.mode=auto,max_seq_len=8 activation_checkpointing.mode=auto,optimizer.name=sgd activation_checkpointing.mode=auto,optimizer.state_dtype=bf16 activation_checkpointing.mode=auto,optimizer.state_dtype=int8 activation_checkpointing.mode=auto,optimizer_in_bwd=true clip_grad_norm=null activation_checkpointing.mode=auto
#> "setting": "batch_size=1", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "dist.state_offload=true", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "lora.rank=16", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "max_seq_len=8", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "optimizer.name=sgd", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "optimizer.state_dtype=bf16", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "optimizer.state_dtype=int8", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "setting": "optimizer_in_bwd=true clip_grad_norm=null", "least_budget_bytes": BYTES, "saved_bytes": BYTES
#> "remedies": []
#> nothing is listed
#> the least budget fits as it is printed
#> and one byte less does not: 3
