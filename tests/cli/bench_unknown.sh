reprise bench add matmull --rounds 1
