# exit: 2
: > empty.yaml
reprise validate empty.yaml
#2> empty.yaml: no model: set 'model.path', or 'model.config' for random weights
