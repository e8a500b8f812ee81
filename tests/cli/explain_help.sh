reprise explain --help
