reprise train
