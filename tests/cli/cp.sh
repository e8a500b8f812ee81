reprise cp tiny_from_scratch mine.yaml && cmp mine.yaml "$SOURCE/recipes/tiny_from_scratch.yaml"
mkdir folder && reprise cp gpt2_124m_full folder && ls folder
echo 'kept' >mine.yaml
reprise cp --no-clobber tiny_from_scratch mine.yaml && cat mine.yaml
reprise cp tiny_from_scratch not/there.yaml
echo $?
reprise cp tiny_from_scratch --make not/there.yaml && ls not
