reprise valdate x.yaml
