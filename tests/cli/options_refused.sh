# exit: 2
reprise sweep --p 3 r.yaml
reprise plan r.yaml --device
reprise plan r.yaml --json=yes
