# exit: 2
reprise inspect nothing.gguf
echo $?
echo 'not a model' >x.gguf
reprise inspect x.gguf
