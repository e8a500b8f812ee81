reprise download --help
