# exit: 2
reprise validate r.yaml --resolvd
