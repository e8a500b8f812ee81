# Names and texts of untrusted files, through every command that reads one: nothing that drives a terminal comes out.
python3 "$SOURCE/tests/cli/hostile.py" "$SOURCE"
#> nothing that drives a terminal came out
