reprise cat tiny_from_scratch | cmp - "$SOURCE/recipes/tiny_from_scratch.yaml"
reprise cp tiny_from_scratch mine.yaml && cmp mine.yaml "$SOURCE/recipes/tiny_from_scratch.yaml"
mkdir folder && reprise cp gpt2_124m_full folder && ls folder
echo 'kept' >mine.yaml
reprise cp --no-clobber tiny_from_scratch mine.yaml && cat mine.yaml
reprise cp tiny_from_scratch not/there.yaml
echo $?
reprise cp tiny_from_scratch --make not/there.yaml && ls not
#> gpt2_124m_full.yaml
#> kept
#> 2
#> there.yaml
#2> copied to mine.yaml
#2> copied to folder/gpt2_124m_full.yaml
#2> reprise cp: 'mine.yaml' exists already and is not changed
#2> reprise cp: cannot write 'not/there.yaml': No such file or directory
#2> copied to not/there.yaml
