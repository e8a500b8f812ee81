reprise plan --help
reprise sweep --help
reprise view --help
