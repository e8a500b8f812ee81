# exit: 2
reprise cp tiny_from_scratch
#2> reprise cp: an argument is missing: reprise cp NAME DEST
#2> try 'reprise cp --help'
