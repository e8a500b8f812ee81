reprise --version
#> reprise 0.1.0
