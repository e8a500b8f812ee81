reprise validate tiny_from_scratch seed=3 'output_dir=runs/${seed}' --resolved >resolved.yaml
sed "s|$SOURCE/||" resolved.yaml
reprise validate resolved.yaml --resolved | cmp - resolved.yaml
