# exit: 2
reprise valdate x.yaml
