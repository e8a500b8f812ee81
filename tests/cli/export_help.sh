reprise export --help
