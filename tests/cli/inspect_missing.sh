# exit: 2
reprise inspect nothing.gguf
echo $?
echo 'not a model' >x.gguf
reprise inspect x.gguf
#> 2
#2> reprise inspect: cannot open 'nothing.gguf': No such file or directory
#2> reprise inspect: 'x.gguf' is not a GGUF file
