reprise generate --help
