# exit: 2
reprise bench add matmull --rounds 1
