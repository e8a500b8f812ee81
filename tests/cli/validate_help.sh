reprise validate --help
