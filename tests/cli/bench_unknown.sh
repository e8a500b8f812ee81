# exit: 2
reprise bench add matmull --rounds 1
#2> reprise bench: no bench is named 'matmull' (did you mean 'matmul'?): 'reprise bench --list' prints their names
