# exit: 2
echo text | reprise tokenize no_such_model
#2> reprise tokenize: cannot open 'no_such_model': No such file or directory
