for c in ls cp cat; do reprise $c -h; done
