# exit: 2
echo text | reprise tokenize no_such_model
