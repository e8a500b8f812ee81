reprise eval --help
