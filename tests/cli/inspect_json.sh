# exit: 2
cd "$SOURCE/tests/io/golden"
reprise inspect --json dtypes.safetensors
mkdir "$OLDPWD/broken" && cd "$OLDPWD" && echo '{"a": 1, "a": 2}' >broken/config.json
reprise inspect broken --json
