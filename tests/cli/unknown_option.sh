reprise validate r.yaml --resolvd
