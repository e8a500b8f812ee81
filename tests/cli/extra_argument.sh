reprise cat a b
