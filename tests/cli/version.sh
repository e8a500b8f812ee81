reprise --version
