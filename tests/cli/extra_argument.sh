# exit: 2
reprise cat a b
