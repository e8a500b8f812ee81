reprise --help
