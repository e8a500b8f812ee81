reprise bench --help
