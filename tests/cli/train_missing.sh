# exit: 2
reprise train
