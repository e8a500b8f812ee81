# exit: 2
: > empty.yaml
reprise validate empty.yaml
