# exit: 2
reprise cp tiny_from_scratch
