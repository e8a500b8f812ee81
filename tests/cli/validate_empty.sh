: > empty.yaml
reprise validate empty.yaml
