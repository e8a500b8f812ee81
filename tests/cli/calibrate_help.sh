reprise calibrate --help
