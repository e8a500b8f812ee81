# exit: 2
reprise cat a b
#2> reprise cat: unexpected argument 'b'
#2> try 'reprise cat --help'
